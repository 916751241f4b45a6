"""The default model in the formats that peers read."""

import gguf
import numpy as np

from benchmarks.peers.model_files import write_bf16_gguf
from tests.unit.executor.weights.factory import save_gguf, tiny_model

FILE_TYPE = "general.file_type"


def test_a_gguf_in_bfloat16_is_the_same_model(tmp_path):
    """All metadata but the file's type; matrices to the nearest bfloat16 of what they stood for; vectors untouched."""
    source = save_gguf(tiny_model("llama"), tmp_path / "q.gguf", "Q8_0")
    write_bf16_gguf(source, tmp_path / "b.gguf")
    before, after = gguf.GGUFReader(source), gguf.GGUFReader(tmp_path / "b.gguf")

    def metadata(reader):
        fields = reader.fields.values()
        return {each.name: each.contents() for each in fields if not each.name.startswith("GGUF.")}

    assert metadata(after) == metadata(before) | {FILE_TYPE: gguf.LlamaFileType.MOSTLY_BF16}
    assert [(each.name, each.shape.tolist()) for each in after.tensors] == [
        (each.name, each.shape.tolist()) for each in before.tensors
    ]
    for one, other in zip(before.tensors, after.tensors, strict=True):
        meant = gguf.dequantize(one.data, one.tensor_type)
        found = gguf.dequantize(other.data, other.tensor_type)
        if meant.ndim == 1:
            assert np.array_equal(found, meant)
        else:
            assert other.tensor_type == gguf.GGMLQuantizationType.BF16
            np.testing.assert_allclose(found, meant, rtol=2**-8)
