"""The model as transformers loads it: bfloat16, greedy, without an end of sequence, on so many threads."""

import os
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
import transformers


def load(folder: str, threads: int) -> Any:
    """The model in `folder`, ready to generate."""
    torch.set_num_threads(threads)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, attn_implementation="sdpa", local_files_only=True
    )
    model.generation_config.do_sample = False
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model.eval()
