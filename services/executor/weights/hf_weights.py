"""Tensors out of safetensors files, in the dtype asked for."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open

from services.executor.models.config import DecoderConfig
from services.executor.weights import layout
from services.executor.weights.errors import MalformedModel, UnsupportedModel

_DTYPES = ("F32", "F16", "BF16")


class SafetensorsFiles:
    """The open files of a model, whose table of tensors is that of its config; use in a `with`."""

    def __init__(self, files: Sequence[Path], config: DecoderConfig) -> None:
        """Opens and checks them; reads no tensor.

        Raises:
            MalformedModel: tensors are missing, too many, twice there, or of a wrong shape.
            UnsupportedModel: a tensor is stored in a type that is not supported.
        """
        shapes = layout.expected_shapes(config)
        self._names = {canonical: layout.hf_name(canonical) for canonical in shapes}
        self._stack = ExitStack()
        with ExitStack() as stack:
            ignored = {"lm_head.weight"} if config.tie_embeddings else set[str]()
            self._homes = _open_all(files, stack, ignored)
            layout.check_names(self._names.values(), self._homes, "safetensors: the model")
            for canonical, shape in shapes.items():
                _check(self._homes[self._names[canonical]], self._names[canonical], shape)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def has(self, canonical: str) -> bool:
        return canonical in self._names

    def tensor(self, canonical: str) -> torch.Tensor:
        """As it is stored; maybe the memory of the file itself."""
        name = self._names[canonical]
        tensor: torch.Tensor = self._homes[name].get_tensor(name)
        return tensor

    def converted(self, canonical: str, dtype: torch.dtype) -> torch.Tensor:
        """A copy in another dtype. Raises `MalformedModel` for numbers that are not finite there."""
        stored = self.tensor(canonical)
        # Always a copy: the library may hand out memory that is the file itself, and files change under running servers.
        tensor = torch.empty(stored.shape, dtype=dtype).copy_(stored)
        if not math.isfinite(tensor.sum(dtype=torch.float64).item()):
            raise MalformedModel(
                f"safetensors: tensor {self._names[canonical][:80]} holds numbers that are not finite in "
                f"{str(dtype).removeprefix('torch.')}"
            )
        return tensor


def load_tensors(files: Sequence[Path], config: DecoderConfig, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """All weights by canonical name.

    Raises:
        MalformedModel: tensors are missing, too many, twice there, of a wrong shape, or hold numbers that are not finite.
        UnsupportedModel: a tensor is stored in a type that is not supported.
    """
    with SafetensorsFiles(files, config) as opened:
        return {canonical: opened.converted(canonical, dtype) for canonical in layout.expected_shapes(config)}


def _open_all(files: Sequence[Path], stack: ExitStack, ignored: set[str]) -> dict[str, Any]:
    """Each tensor's name, and the open file that has it."""
    homes: dict[str, Any] = {}
    for path in files:
        try:
            opened = stack.enter_context(safe_open(path, framework="pt"))
        except (SafetensorError, OSError) as error:
            raise MalformedModel(f"{path.name} is not a whole safetensors file; fetch it again") from error
        for name in opened.keys():  # noqa: SIM118 - not a mapping
            if name in ignored or name.endswith(".rotary_emb.inv_freq"):  # what old checkpoints carry along
                continue
            if name in homes:
                raise MalformedModel(f"safetensors: the tensor {name[:80]} occurs twice")
            homes[name] = opened
    return homes


def _check(home: Any, name: str, shape: layout.Shape) -> None:
    view = home.get_slice(name)
    layout.check_shape(name, shape, tuple(view.get_shape()), "safetensors")
    if view.get_dtype() not in _DTYPES:
        raise UnsupportedModel(
            f"safetensors: tensor {name[:80]} is stored as {view.get_dtype()}; supported types: {', '.join(_DTYPES)}"
        )
