"""Memory sums agree with known figures."""

import dataclasses

import pytest

from services.executor.models import memory
from services.executor.models.config import DecoderConfig


def model(**values: int | bool) -> DecoderConfig:
    """A config of the shape given."""
    rest = {"architecture": "llama", "context_length": 131072, "norm_eps": 1e-5, "rope_theta": 5e5}
    return DecoderConfig(**(rest | values))


SMOLLM2_135M = model(
    vocab_size=49152, hidden_size=576, num_layers=30, num_heads=9, num_kv_heads=3, head_dim=64, intermediate_size=1536,
    tie_embeddings=True,
)  # fmt: skip
LLAMA_8B = model(
    vocab_size=128256, hidden_size=4096, num_layers=32, num_heads=32, num_kv_heads=8, head_dim=128,
    intermediate_size=14336,
)  # fmt: skip
LLAMA_70B = model(
    vocab_size=128256, hidden_size=8192, num_layers=80, num_heads=64, num_kv_heads=8, head_dim=128,
    intermediate_size=28672,
)  # fmt: skip
LLAMA2_7B = model(
    vocab_size=32000, hidden_size=4096, num_layers=32, num_heads=32, num_kv_heads=32, head_dim=128,
    intermediate_size=11008,
)  # fmt: skip
QWEN25_7B = model(
    vocab_size=152064, hidden_size=3584, num_layers=28, num_heads=28, num_kv_heads=4, head_dim=128,
    intermediate_size=18944, qkv_bias=True,
)  # fmt: skip
KIB = 1024
GB = 10**9


@pytest.mark.parametrize(
    ("config", "kib"),
    [(SMOLLM2_135M, 22.5), (LLAMA_8B, 128), (LLAMA_70B, 320), (LLAMA2_7B, 512), (QWEN25_7B, 56)],
)
def test_kv_bytes_per_token_are_the_known_ones(config: DecoderConfig, kib: float) -> None:
    """Half-precision KV bytes per token are those that the models are known for."""
    assert memory.kv_bytes_per_token(config, "float16") == kib * KIB
    assert memory.kv_bytes_per_token(config, "float32") == 2 * kib * KIB


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (SMOLLM2_135M, 134_515_008),
        (LLAMA_8B, 8_030_261_248),
        (LLAMA_70B, 70_553_706_496),
        (LLAMA2_7B, 6_738_415_616),
        (QWEN25_7B, 7_615_616_512),
    ],
)
def test_parameters_are_the_published_ones(config: DecoderConfig, parameters: int) -> None:
    """Parameter counts are exactly those of the published checkpoints."""
    assert memory.num_parameters(config) == parameters
    assert memory.weight_bytes(config, "bfloat16") == 2 * parameters


def test_an_8b_model_on_80_and_141_gb_fits_as_known() -> None:
    """An 8B bf16 model leaves 404 k tokens on 80 GB, 197 sequences of 2,048, and 823 k on 141 GB."""
    small = memory.fit(LLAMA_8B, 80 * GB, "bfloat16", 2048)
    assert (round(small.pool_tokens, -3), small.num_sequences) == (404_000, 197)
    assert round(memory.fit(LLAMA_8B, 141 * GB, "bfloat16", 2048).pool_tokens, -3) == 823_000


def test_70b_on_80_gb_does_not_fit_until_four_share_it() -> None:
    """70B bf16 on 80 GB does not fit, nor on two; four devices run it."""
    alone = memory.fit(LLAMA_70B, 80 * GB, "bfloat16", 2048)
    assert (alone.fits, alone.pool_tokens, alone.num_sequences) == (False, 0, 0)
    assert alone.usable_bytes == 69 * GB  # nine tenths, less 3 GB for the runtime
    assert memory.smallest_tensor_parallel(LLAMA_70B, 80 * GB, "bfloat16", 2048) == 4
    assert memory.smallest_tensor_parallel(LLAMA_70B, GB, "bfloat16", 2048) is None


def test_devices_share_heads_only_as_far_as_there_are_some() -> None:
    """KV bytes fall with the number of devices down to one KV head each; heads must divide."""
    halves = [memory.kv_bytes_per_token(LLAMA_8B, "bfloat16", degree) for degree in (1, 2, 8, 16, 32)]
    assert halves == [128 * KIB, 64 * KIB, 16 * KIB, 16 * KIB, 16 * KIB]
    assert list(memory.parallel_degrees(SMOLLM2_135M)) == [1, 3, 9]
    assert list(memory.parallel_degrees(LLAMA_8B)) == [1, 2, 4, 8, 16, 32]


def test_shared_weights_add_up_to_the_model_and_its_copies() -> None:
    """All devices together hold the weights once, and norms once on each."""
    norms = (2 * LLAMA_8B.num_layers + 1) * LLAMA_8B.hidden_size * 2
    shares = 4 * memory.weight_bytes(LLAMA_8B, "bfloat16", 4)
    assert shares == memory.weight_bytes(LLAMA_8B, "bfloat16") + 3 * norms


def test_sequences_take_whole_blocks() -> None:
    """A sequence of 17 tokens takes two blocks of 16."""
    fit = memory.fit(SMOLLM2_135M, GB, "float32", 17)
    assert fit.num_sequences == fit.pool_tokens // 32
    assert not dataclasses.replace(fit, num_sequences=0).fits


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("80GB", 80 * GB),
        ("1.5 gb", 3 * GB // 2),
        ("16GiB", 16 << 30),
        ("512 MiB", 512 << 20),
        ("4096 B", 4096),
    ],
)
def test_amounts_of_memory_are_read(text: str, amount: int) -> None:
    """GB counts by 1000, GiB by 1024."""
    assert memory.parse_bytes(text) == amount


@pytest.mark.parametrize("text", ["", "GB", "nan", "inf", "1e30GB", "12XB", "2T", "1 2"])
def test_what_is_no_amount_of_memory_is_refused(text: str) -> None:
    """Nonsense is refused in the words of the caller."""
    with pytest.raises(ValueError, match=r"no amount of memory.*80GB or 16GiB"):
        memory.parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "words"), [("80", "no unit; write it as 80GB or 80GiB"), ("-5GB", "more than 0"), ("0GB", "more than 0")]
)
def test_an_amount_without_unit_or_of_nothing_is_refused_with_its_own_reason(text: str, words: str) -> None:
    """A bare number is not silently taken for bytes, and a negative one is not called unreadable."""
    with pytest.raises(ValueError, match=words):
        memory.parse_bytes(text)
