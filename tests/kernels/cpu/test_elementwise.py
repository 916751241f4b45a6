"""Compiled norm, sum, gate and rotation: what they compute, and that a row's bits are its own."""

import numpy as np
import pytest
import torch

from kernels import reference

WIDTHS = [1, 15, 16, 17, 48, 100, 576, 1000]


def random_rows(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def same_bits(left, right):
    return np.array_equal(left.view(np.int32), right.view(np.int32))


@pytest.mark.parametrize("width", WIDTHS)
def test_norm_is_the_references(ops, width):
    """rms_norm is the reference's to 1e-6, of any width."""
    x, weight = 3 * random_rows(5, width), random_rows(width, seed=1)
    expected = reference.rms_norm(torch.from_numpy(x), torch.from_numpy(weight), 1e-5)
    np.testing.assert_allclose(ops.rms_norm(x, weight, 1e-5), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("width", WIDTHS)
def test_norm_of_a_row_does_not_depend_on_its_neighbours(ops, width):
    """A row's norm has the same bits alone and among others, one of which is not finite."""
    x, weight = random_rows(7, width), random_rows(width, seed=1)
    x[3] = np.nan
    together = ops.rms_norm(x, weight, 1e-5)
    for row in range(7):
        assert same_bits(together[row], ops.rms_norm(x[row : row + 1], weight, 1e-5)[0])


@pytest.mark.parametrize("width", WIDTHS)
def test_sum_is_exact(ops, width):
    """Add rounds each sum once, and touches nothing past the end."""
    x, y = random_rows(width + 1), random_rows(width, seed=1)
    expected = np.append(x[:-1] + y, x[-1])
    ops.add(x[:-1], y)
    assert same_bits(x, expected)


@pytest.mark.parametrize("inner", WIDTHS)
def test_gate_is_the_references(ops, inner):
    """silu(gate) * up is right to 4e-7, of any width."""
    gate_up = 4 * random_rows(5, 2 * inner)
    gate, up = np.split(gate_up.astype(np.float64), 2, axis=1)
    np.testing.assert_allclose(ops.silu_mul(gate_up), gate / (1 + np.exp(-gate)) * up, rtol=4e-7)


def test_gate_saturates_and_shows_what_is_not_finite(ops):
    """Gates far from 0 give up or 0 (the gate itself, where exp is denormal); a NaN stays one."""
    gate = np.array([[200.0, -200.0, 1e30, -1e30, np.inf, np.nan, 0.0, -0.0]], np.float32)
    out = ops.silu_mul(np.concatenate([gate, np.full_like(gate, 2.0)], axis=1))[0]
    assert out[[0, 1, 2, 3, 4, 6, 7]].tolist() == [400.0, 0.0, np.float32(2e30), 0.0, np.inf, 0.0, 0.0]
    assert np.isnan(out[5])


def test_exp_is_right_over_its_whole_range(ops):
    """The gate's exp has a relative error below 1.2e-7, seen through silu where it is all that counts."""
    gate = -np.concatenate([np.linspace(17, 87, 40_000), np.linspace(80, 87, 8_000)]).astype(np.float32)
    up = np.ones_like(gate)
    exact = gate.astype(np.float64) / (1 + np.exp(-gate.astype(np.float64)))
    error = np.abs(ops.silu_mul(np.concatenate([gate, up])[None])[0] / exact - 1)
    assert error.max() < 1.2e-7 + 3 * 2.0**-24  # exp, and the rounding of sum, quotient and product


@pytest.mark.parametrize("inner", [7, 100])
def test_gate_of_an_element_does_not_depend_on_its_place(ops, inner):
    """An element's bits are the same in a vector's lanes and in the rest of a row."""
    gate, up = 3 * random_rows(inner), random_rows(inner, seed=1)
    whole = ops.silu_mul(np.concatenate([gate, up])[None])[0]
    for place in range(inner):
        alone = ops.silu_mul(np.array([[gate[place], up[place]]], np.float32))[0]
        assert same_bits(alone, whole[place : place + 1])


@pytest.mark.parametrize("head_dim", [16, 48, 64, 128, 10])
def test_rotation_is_the_references_bit_for_bit(ops, head_dim):
    """Rope on split halves rounds each product and each sum, as the reference does."""
    x = random_rows(3, head_dim)
    angles = random_rows(head_dim // 2, seed=1)
    cos, sin = np.cos(angles), np.sin(angles)
    turned = x.copy()
    ops.rope(turned, cos, sin)
    expected = reference.rotate(*(torch.from_numpy(part) for part in (x[None], cos[None, None], sin[None, None])))
    assert same_bits(turned, expected[0].numpy())
