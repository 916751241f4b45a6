"""Writes a GGUF as an ordinary Hugging Face directory in bfloat16: `python -m ... MODEL.gguf FOLDER`."""

import os
import sys
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def convert(source: Path, folder: Path) -> None:
    """Transformers reads the GGUF itself, so that nothing of Headway's own reader is in what peers are given."""
    read = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.bfloat16)
    config = read.config
    if hasattr(
        config, "quantization_config"
    ):  # the weights are dequantized by now, but it refuses to save them as that
        del config.quantization_config
    auto: Any = AutoModelForCausalLM
    plain = auto.from_config(config, dtype=torch.bfloat16)
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
