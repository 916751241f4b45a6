"""A model in memory, as torch has it: its description and its weights."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from services.executor.weights.model_description import ModelDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel(ModelDescription):
    """Tensors are by canonical name (see `layout`), contiguous, on the CPU, all of one dtype."""

    tensors: Mapping[str, torch.Tensor]
