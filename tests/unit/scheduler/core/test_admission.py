import pytest

from services.scheduler.core import admission
from services.scheduler.core.settings import CoreSettings
from services.wire.execution import RequestKind, Sampling
from services.wire.message import float32_column, int32_column
from services.wire.scheduling import RejectReason
from tests.unit.scheduler.core.helpers import capacity, submit

SETTINGS = CoreSettings(default_max_tokens=100, max_tokens_cap=500)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"max_tokens": 501}, "stop.max_tokens"),
        ({"max_tokens": 0}, "stop.max_tokens"),
        ({"accepted": [1, 2], "max_tokens": 1}, "stop.max_tokens"),
        ({"adapter": "a"}, "adapter"),
        ({"kind": RequestKind.EMBED}, ""),
        ({"sampling": Sampling(temperature=float("inf"))}, "sampling.temperature"),
        ({"sampling": Sampling(top_p=0)}, "sampling.top_p"),
        ({"sampling": Sampling(top_p=float("nan"))}, "sampling.top_p"),
        ({"sampling": Sampling(top_k=-5)}, "sampling.top_k"),
        ({"sampling": Sampling(min_p=1.5)}, "sampling.min_p"),
        ({"sampling": Sampling(repetition_penalty=0)}, "sampling.repetition_penalty"),
        ({"sampling": Sampling(presence_penalty=float("nan"))}, "sampling.presence_penalty"),
        ({"sampling": Sampling(frequency_penalty=float("inf"))}, "sampling.frequency_penalty"),
        (
            {"sampling": Sampling(bias_ids=int32_column([1]), bias_values=float32_column([float("nan")]))},
            "sampling.logit_bias",
        ),
        ({"sampling": Sampling(logprobs=-2)}, "output.logprobs"),
    ],
)
def test_what_is_wrong_whatever_the_model_is_refused_by_field(fields: dict, name: str):
    """INVALID, with the field of the public request to blame."""
    refusal = admission.static_refusal(submit(**fields), SETTINGS)
    assert (refusal.reason, refusal.field) == (RejectReason.INVALID, name)


def test_grammars_are_not_served():
    """They have a reason of their own."""
    assert admission.static_refusal(submit(grammar="x"), SETTINGS).reason is RejectReason.GRAMMAR


def test_a_plain_request_is_not_refused():
    """Neither by the settings nor by the model."""
    assert admission.static_refusal(submit(), SETTINGS) is None
    assert admission.model_refusal(submit(), SETTINGS, capacity()) is None


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"prompt": [5, 100]}, "prompt"),
        ({"prompt": [5, -1]}, "prompt"),
        ({"sampling": Sampling(stop_ids=int32_column([100]))}, "stop.token_ids"),
        ({"sampling": Sampling(banned_ids=int32_column([-3]))}, "sampling.banned_token_ids"),
        ({"sampling": Sampling(allowed_ids=int32_column([1000]))}, "sampling.allowed_token_ids"),
        (
            {"sampling": Sampling(bias_ids=int32_column([100]), bias_values=float32_column([1]))},
            "sampling.logit_bias",
        ),
        ({"sampling": Sampling(logprobs=21)}, "output.logprobs"),
        ({"sampling": Sampling(prompt_logprobs=21)}, "output.prompt_logprobs"),
    ],
)
def test_what_this_model_cannot_do_is_refused_by_field(fields: dict, name: str):
    """Token ids outside the vocabulary of 100, and more logprobs than are served."""
    refusal = admission.model_refusal(submit(**fields), SETTINGS, capacity())
    assert (refusal.reason, refusal.field) == (RejectReason.INVALID, name)


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "fits"),
    [(60, 5, True), (60, 6, False), (64, 1, True), (65, 1, False), (64, -1, True), (65, -1, False), (64, 0, True)],
)
def test_never_fits_is_decided_against_the_whole_pool(prompt: int, max_tokens: int, fits: bool):
    """A pool of 64 tokens holds a sequence of 65: the token that reaches the limit needs no place."""
    message = submit(prompt=[1] * prompt, max_tokens=max_tokens, sampling=Sampling(prompt_logprobs=0))
    refusal = admission.model_refusal(message, SETTINGS, capacity(num_blocks=4))
    assert (refusal is None) == fits
    assert fits or refusal.reason is RejectReason.NEVER_FITS


def test_never_fits_is_decided_against_the_context():
    """Prompt and answer together."""
    card = capacity(context_length=50)
    assert admission.model_refusal(submit(prompt=[1] * 40, max_tokens=10), SETTINGS, card) is None
    refusal = admission.model_refusal(submit(prompt=[1] * 40, max_tokens=11), SETTINGS, card)
    assert (refusal.reason, refusal.field) == (RejectReason.NEVER_FITS, "stop.max_tokens")
    assert admission.model_refusal(submit(prompt=[1] * 50, max_tokens=-1), SETTINGS, card).field == "prompt"


@pytest.mark.parametrize(("prompt", "limit"), [(10, 110), (150, 200), (199, 200)])
def test_an_unset_max_tokens_is_the_default_clipped_to_the_context(prompt: int, limit: int):
    """100 tokens, or what is left of 200."""
    message = submit(prompt=[1] * prompt, max_tokens=-1)
    assert admission.token_limit(message, SETTINGS, capacity(context_length=200)) == limit


def test_an_explicit_max_tokens_is_never_clipped():
    """It fits or it is refused."""
    assert admission.token_limit(submit(prompt=20, max_tokens=400), SETTINGS, capacity()) == 420


def test_a_request_above_its_tenants_quota_of_blocks_is_refused():
    """What it holds at its limit counts; one block less is enough."""
    message = submit(prompt=20, max_tokens=13, tenant_max_blocks=2)
    assert admission.quota_refusal(message, 33, capacity()) is None
    assert admission.quota_refusal(message, 34, capacity()).reason is RejectReason.QUOTA


def test_a_resumed_answer_that_ended_with_a_stop_token_is_complete():
    """Unless that token is ignored; a prompt's last token does not count."""
    card = capacity(eos_ids=int32_column([9])).card
    assert admission.has_stopped(submit(accepted=[4, 9]), card)
    assert not admission.has_stopped(submit(accepted=[4, 9], sampling=Sampling(ignore_eos=True)), card)
    assert admission.has_stopped(submit(accepted=[4], sampling=Sampling(stop_ids=int32_column([4]))), card)
    assert not admission.has_stopped(submit(prompt=[1, 9]), card)
