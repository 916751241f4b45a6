"""The default model in the formats that peers read, made once from the GGUF that Headway itself serves."""

import shutil
import subprocess
from pathlib import Path

from benchmarks.peers.driver_command import driver_command, driver_dir, last_line
from services.executor.weights.default_model import ensure_default_model
from services.executor.weights.locking import locked

_HF_NAME = "SmolLM2-135M-Instruct-bf16"
_GGUF_NAME = "SmolLM2-135M-Instruct.BF16.gguf"
CONVERSION_LIMIT_S = 600.0


class NotConverted(Exception):
    """The model cannot be had in the format that a peer reads; the message says why."""


def bf16_gguf(folder: Path) -> Path:
    """The default model as a GGUF in bfloat16, made where it is not there yet."""
    target = folder / _GGUF_NAME
    with locked(folder / ".model.lock"):
        if not target.exists():
            write_bf16_gguf(ensure_default_model(), target)
    return target


def hugging_face(folder: Path, python: Path) -> Path:
    """The same as a Hugging Face directory, written by the transformers that `python` has. Raises `NotConverted`."""
    target = folder / _HF_NAME
    with locked(folder / ".model.lock"):
        if not target.exists():
            part = target.with_name(target.name + ".part")
            shutil.rmtree(part, ignore_errors=True)
            done = subprocess.run(
                driver_command(python, "convert", str(ensure_default_model()), str(part)),
                cwd=driver_dir(folder),
                capture_output=True,
                text=True,
                timeout=CONVERSION_LIMIT_S,
                check=False,
            )
            if done.returncode:
                raise NotConverted(f"the model was not converted: {last_line(done.stderr)}")
            part.replace(target)
    return target


def write_bf16_gguf(source: Path, target: Path) -> None:
    """Matrices become bfloat16, vectors stay as they are, and so does all metadata but the file's type."""
    from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, Keys, LlamaFileType
    from gguf.quants import dequantize, quantize

    reader = GGUFReader(source)
    part = target.with_name(target.name + ".part")
    writer = GGUFWriter(part, arch=reader.fields[Keys.General.ARCHITECTURE].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in {Keys.General.ARCHITECTURE, Keys.General.FILE_TYPE}:
            continue
        element = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=element)
    writer.add_file_type(LlamaFileType.MOSTLY_BF16)
    bf16 = GGMLQuantizationType.BF16
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, quantize(values, bf16), raw_dtype=bf16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.replace(target)
