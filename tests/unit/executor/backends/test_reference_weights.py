"""The reference's weights are the stored ones, in float32."""

import numpy as np
import pytest
import torch

from services.executor.backends import reference_weights
from services.executor.backends.reference_weights import float32_tensors
from services.executor.weights.errors import MalformedModel
from services.executor.weights.load import load_model, open_model
from services.executor.weights.stored_tensor import StoredTensor
from tests.support.tiny_model import tiny_config
from tests.unit.executor.weights import factory

KINDS = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"]


def save(family, form, directory):
    model = factory.tiny_model(family)
    if form in KINDS:
        return factory.save_gguf(model, directory / "model.gguf", form)
    return factory.save_directory(model.to(getattr(torch, form)), directory / "model")


@pytest.mark.parametrize("family", ["llama3", "qwen3"])
@pytest.mark.parametrize("form", [*KINDS, "float32", "bfloat16", "float16"])
def test_they_are_those_of_the_file_bit_for_bit(tmp_path, monkeypatch, family, form):
    """Of each storage type, from a GGUF file and from a directory, in pieces that do not divide a tensor."""
    monkeypatch.setattr(reference_weights, "_PIECE_ELEMENTS", 7 * 256)
    path = save(family, form, tmp_path)
    expected = load_model(path, torch.float32).tensors
    with open_model(path) as opened:
        tensors = float32_tensors(opened.weights, opened.description.config)
    assert tensors.keys() == expected.keys()
    assert all(torch.equal(tensors[name], expected[name]) for name in expected)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}


def test_numbers_that_are_not_finite_are_refused():
    """The words name the tensor."""

    class Ones:
        def tensor(self, canonical):
            values = np.ones((1, 48), np.float32)
            values[0, 5] = np.nan
            return StoredTensor("F32", 48, values.view(np.uint8))

    with pytest.raises(MalformedModel, match=r"the tensor \S+ holds numbers that are not finite"):
        float32_tensors(Ones(), tiny_config())
