"""Packed linears against the gguf package and float64, at every level of this machine."""

import numpy as np
import pytest

from kernels.cpu.library import KINDS, CpuLibrary, Linear, NotFinite
from tests.kernels.cpu.weights import FLOATS, QUANTIZED, Tensor, as_bf16, as_int8, inputs_of, tensor


def packed(library: CpuLibrary, *tensors: Tensor, dtype="auto") -> Linear:
    linear = library.linear(tensors[0].values.shape[1])
    for each in tensors:
        linear.add_segment(each.kind, each.outputs, each.raw, dtype)
    return linear


def rows_of(inputs: int, rows: int, seed: int = 1) -> np.ndarray:
    """Rows whose groups differ much in size."""
    rng = np.random.default_rng(seed)
    sizes = np.repeat(np.exp(rng.normal(0, 2, (rows, -(-inputs // 32)))), 32, axis=1)[:, :inputs]
    return (rng.standard_normal((rows, inputs)) * sizes).astype(np.float32)


def assert_close(result: np.ndarray, x: np.ndarray, weights: np.ndarray, tolerance: float) -> None:
    """Within `tolerance` of the sum of magnitudes, which is what rounding is in proportion to."""
    exact = x.astype(np.float64) @ weights.T.astype(np.float64)
    magnitude = np.abs(x.astype(np.float64)) @ np.abs(weights.T.astype(np.float64))
    assert np.abs(result - exact).max() <= (tolerance * magnitude).max()
    assert (np.abs(result - exact) <= tolerance * magnitude + 1e-30).all()


def seen_by(kind: str, x: np.ndarray) -> np.ndarray:
    """Activations in the precision that a kind multiplies with."""
    if kind in QUANTIZED:
        return as_int8(x)
    return as_bf16(x) if kind == "BF16" else x


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 19])
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_multiplies_in_its_own_precision(library, kind, rows):
    """Outputs are the product with what gguf reads from the tensor, but for float32 rounding."""
    weights = tensor(kind, 37, inputs_of(kind))
    x = rows_of(inputs_of(kind), rows)
    assert_close(packed(library, weights).run(x), seen_by(kind, x), weights.values, 1e-6)


def test_an_output_that_is_given_is_filled(library):
    """A caller's array takes the result; one of another shape, type or order is refused."""
    linear = packed(library, tensor("F32", 20, 64))
    x = rows_of(64, 3)
    out = np.full((3, 20), np.nan, np.float32)
    assert linear.run(x, out) is out
    assert np.array_equal(out, linear.run(x))
    expected, out[:] = out.copy(), np.nan
    assert linear.bound(x, out)() == 0
    assert np.array_equal(out, expected)
    for wrong in (np.empty((3, 21), np.float32), np.empty((3, 20)), np.empty((20, 3), np.float32).T):
        with pytest.raises(ValueError, match="must be contiguous"):
            linear.run(x, wrong)
    with pytest.raises(ValueError, match="is not"):
        linear.run(rows_of(63, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_the_weights_comes_back_bit_for_bit(library, kind):
    """Unpacking gives, for any ids in any order, the floats that gguf gives."""
    weights = tensor(kind, 53, inputs_of(kind))
    ids = np.array([52, 0, 17, 17, 31, 16], np.int32)
    assert np.array_equal(packed(library, weights).unpack(ids), weights.values[ids])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_kind_is_converted_when_asked(library, kind, dtype):
    """Any kind can be kept as floats, or rounded to bfloat16, and then multiplies as such."""
    weights = tensor(kind, 21, 512)
    linear = packed(library, weights, dtype=dtype)
    kept = as_bf16(weights.values) if dtype == "bfloat16" else weights.values
    x = rows_of(512, 9)
    assert np.array_equal(linear.unpack(np.arange(21, dtype=np.int32)), kept)
    assert_close(linear.run(x), as_bf16(x) if dtype == "bfloat16" else x, kept, 1e-6)


def test_segments_of_different_kinds_stand_side_by_side(library):
    """Each segment's outputs are those of its own linear, bit for bit, whatever stands before it."""
    tensors = [tensor(kind, outputs, 512) for kind, outputs in zip(KINDS, (16, 5, 33, 48, 1, 20, 16, 7), strict=True)]
    x = rows_of(512, 11)
    together = packed(library, *tensors)
    apart = [packed(library, each).run(x) for each in tensors]
    assert together.outputs == sum(each.outputs for each in tensors)
    assert np.array_equal(together.run(x), np.concatenate(apart, axis=1))
    ids = np.arange(together.outputs, dtype=np.int32)
    assert np.array_equal(together.unpack(ids), np.concatenate([each.values for each in tensors]))


def test_a_bias_is_added_once_at_the_end(library):
    """The bias of each output is added to its sum, in segments that do not fill their blocks too."""
    tensors = [tensor("Q4_1", 21, 512), tensor("F32", 3, 512)]
    bias = np.random.default_rng(5).standard_normal(24).astype(np.float32)
    x = rows_of(512, 10)
    linear = packed(library, *tensors)
    without = linear.run(x)
    linear.set_bias(bias)
    assert np.array_equal(linear.run(x), without + bias)


def test_nothing_follows_a_bias(library):
    """Outputs after it would have none: they are refused, and the linear stays as it was."""
    weights = tensor("F32", 20, 64)
    linear = packed(library, weights)
    linear.set_bias(np.ones(20, np.float32))
    x = rows_of(64, 2)
    before = linear.run(x)
    with pytest.raises(ValueError, match="after the bias"):
        linear.add_segment("F32", 20, weights.raw)
    assert linear.outputs == 20
    assert np.array_equal(linear.run(x), before)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("inputs", [1, 2, 15, 31, 33, 577])
def test_floats_may_have_any_width(library, kind, inputs):
    """Float kinds take any number of inputs, odd ones among them."""
    weights = tensor(kind, 18, inputs)
    x = rows_of(inputs, 13)
    linear = packed(library, weights)
    assert_close(linear.run(x), seen_by(kind, x), weights.values, 1e-6)
    assert np.array_equal(linear.unpack(np.array([17], np.int32)), weights.values[17:])


@pytest.mark.parametrize(("kind", "inputs"), [("Q8_0", 48), ("Q4_0", 16), ("Q4_1", 100), ("Q4_K", 128), ("Q6_K", 288)])
def test_a_width_that_is_no_multiple_of_the_record_is_refused(library, kind, inputs):
    """A quantized kind needs inputs by 32, a K-quant by 256, whatever bytes are offered."""
    linear = library.linear(inputs)
    for size in (0, 18, 34, 144, 210, 420):
        with pytest.raises(ValueError, match=kind):
            linear.add_segment(kind, 1, np.zeros(size, np.uint8))
    assert linear.outputs == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("surplus", [-1, 1])
def test_a_tensor_of_the_wrong_size_is_refused(library, kind, surplus):
    """One byte too few or too many is said, and nothing is packed."""
    size = tensor(kind, 3, 512).raw.nbytes + surplus
    linear = library.linear(512)
    with pytest.raises(ValueError, match=f"{size} bytes"):
        linear.add_segment(kind, 3, np.zeros(size, np.uint8))
    assert linear.outputs == 0


def test_senseless_extents_are_refused(library):
    """No extent is zero, negative, or so large that sizes overflow."""
    with pytest.raises(ValueError, match="0 inputs"):
        library.linear(0)
    linear = library.linear(64)
    for outputs in (0, -1, 2**31, 2**62):
        with pytest.raises(ValueError, match="tensor"):
            linear.add_segment("F32", outputs, np.zeros((1, 64), np.float32))
    with pytest.raises(ValueError, match="Q5_K"):
        linear.add_segment("Q5_K", 1, np.zeros(176, np.uint8))
    with pytest.raises(ValueError, match="without outputs"):
        linear.run(np.zeros((1, 64), np.float32))
    linear.add_segment("F32", 1, np.zeros((1, 64), np.float32))
    with pytest.raises(ValueError, match="bias of 2"):
        linear.set_bias(np.zeros(2, np.float32))
    for wrong in (-1, 1):
        with pytest.raises(ValueError, match="between 0 and 0"):
            linear.unpack(np.array([0, wrong], np.int32))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(library, kind, bad):
    """An infinity or NaN among weights, or the scales of weights, is found wherever it stands."""
    weights = tensor(kind, 5, 512)
    raw = weights.raw.copy()
    if kind in FLOATS:
        bits = raw.view(np.uint8)[4].view(np.uint16 if kind != "F32" else np.uint32)
        wrong = {"F32": np.float32(bad).view(np.uint32), "F16": np.float16(bad).view(np.uint16)}
        bits[511] = wrong.get(kind, np.float32(bad).view(np.uint32) >> 16)
    else:
        at = {"Q4_K": raw.shape[1] - 142, "Q6_K": raw.shape[1] - 2, "Q4_1": raw.shape[1] - 18}
        first = at.get(kind, raw.shape[1] - {"Q8_0": 34, "Q4_0": 18}.get(kind, 0))
        raw[4, first : first + 2] = np.frombuffer(np.float16(bad).tobytes(), np.uint8)
    linear = library.linear(512)
    with pytest.raises(NotFinite, match=kind):
        linear.add_segment(kind, 5, raw)
    linear.add_segment(kind, 5, weights.raw)


LARGEST_IN_BF16 = np.uint32(0x7F7F7FFF).view(np.float32)
"""The largest float that bfloat16 does not round to infinity."""


@pytest.mark.parametrize("sign", [1, -1])
def test_weights_that_grow_infinite_in_their_packing_are_refused(library, sign):
    """A float near the end of its range has no bfloat16; kept as it is, it is a weight like any other."""
    values = np.ones((3, 64), np.float32)
    values[2, 63] = sign * np.nextafter(LARGEST_IN_BF16, np.float32(np.inf))
    linear = library.linear(64)
    with pytest.raises(NotFinite, match="in bfloat16"):
        linear.add_segment("F32", 3, values, "bfloat16")
    linear.add_segment("F32", 3, values)
    linear.add_segment("F32", 3, values, "float32")
    values[2, 63] = sign * LARGEST_IN_BF16
    linear.add_segment("F32", 3, values, "bfloat16")
    assert np.isfinite(linear.unpack(np.arange(9, dtype=np.int32))).all()


@pytest.mark.parametrize("kind", QUANTIZED)
def test_a_row_that_is_not_finite_gives_nothing_finite(library, kind):
    """One NaN or infinity among the inputs shows in every output: an overflow is never hidden."""
    weights = tensor(kind, 20, 512)
    linear = packed(library, weights)
    for bad in (np.nan, np.inf, -np.inf):
        x = rows_of(512, 3)
        x[1, 300] = bad
        finite = np.isfinite(linear.run(x))
        assert finite[[0, 2]].all()
        assert not finite[1].any()


@pytest.mark.parametrize("kind", QUANTIZED)
def test_tiny_and_huge_activations_keep_their_precision(library, kind):
    """Groups of zeros, of subnormals and of values near the largest float quantize without overflow."""
    weights = tensor(kind, 20, 512)
    linear = packed(library, weights)
    base = rows_of(512, 1) / 100
    for factor in (0.0, 1e-30, 1e-20, 1e30):
        x = (base * np.float32(factor)).astype(np.float32)
        assert_close(linear.run(x), as_int8(x), weights.values, 1e-6)
    assert np.abs(linear.run((base * np.float32(1e-39)).astype(np.float32))).max() < 1e-33


def test_packed_weights_take_no_more_room_than_the_file(library):
    """Every kind is kept in its own precision: whole blocks are as large as GGUF's."""
    for kind in KINDS:
        weights = tensor(kind, 32, 512)
        room = packed(library, weights).packed_bytes
        assert room <= weights.raw.nbytes * (1.03 if kind == "Q4_K" else 1)
