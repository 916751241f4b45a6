"""Routers that lie about their chain hashes, before an engine that looks into every block that it reads."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from services.scheduler.core.settings import CoreSettings
from services.scheduler.driver import Driver
from services.wire.chain import block_hashes
from services.wire.execution import Sampling
from services.wire.message import int32_column
from services.wire.scheduling import Submit
from tests.simulation.strict_engine import StrictEngine, expected_tokens

ROOT = bytes(16)
A, B = [7] * 16, [8] * 16
NAMES = [bytes([value] * 16) for value in range(3)]


def honest(prompt: list[int]) -> list[bytes]:
    return list(block_hashes(ROOT, int32_column(prompt), 16))


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[int], list[bytes]]:
    """A prompt of few distinct blocks, each under its honest hash, another prompt's, or one of few invented ones."""
    blocks = draw(st.lists(st.sampled_from([A, B]), min_size=1, max_size=4))
    prompt = [*(token for block in blocks for token in block), 9]
    others = honest([token for _ in range(4) for token in draw(st.sampled_from([A, B]))])
    choices = zip(honest(prompt), others, strict=False)
    return prompt, [draw(st.sampled_from([own, own, other, *NAMES])) for own, other in choices]


@settings(max_examples=150)
@given(sent=st.lists(requests(), min_size=2, max_size=12), num_blocks=st.sampled_from([8, 12, 64]))
@example(sent=[(B + A + [9], [NAMES[0], honest(A + A)[1]]), (A + A + [9], honest(A + A)), (A + A + [9], honest(A + A))],
         num_blocks=64)  # fmt: skip
def test_no_hash_ever_makes_a_block_stand_behind_another_prefix(
    sent: list[tuple[list[int], list[bytes]]], num_blocks: int
) -> None:
    """Whatever is sent, each block that is read holds this sequence's own prefix, and each answer is the right one."""
    engine = StrictEngine(num_blocks=num_blocks, context_length=112)
    driver = Driver(CoreSettings(token_budget=40, max_slots=3), engine, check_integrity=True)
    driver.start()
    answers = [
        driver.submit_message(
            Submit(
                handle=handle,
                request_id=f"r{handle}",
                token_ids=int32_column(prompt),
                prompt_length=len(prompt),
                chain_root=ROOT,
                block_hashes=b"".join(hashes),
                sampling=Sampling(temperature=0.0, ignore_eos=True),
                max_tokens=20,
            ),
            at_us=handle * 7000,
        )
        for handle, (prompt, hashes) in enumerate(sent)
    ]
    driver.run()
    for answer, (prompt, _) in zip(answers, sent, strict=True):
        assert answer.token_ids == expected_tokens(prompt, 20, 0, Sampling(ignore_eos=True))
