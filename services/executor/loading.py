"""From settings to an engine that is ready: the model's files, the back end that computes it, a first run."""

from dataclasses import dataclass
from pathlib import Path

from services.executor.backends.backend import Backend
from services.executor.backends.choice import Choice, choose
from services.executor.blocks import BLOCK_SIZE, blocks_that_fit
from services.executor.engine import Engine
from services.executor.models.config import DecoderConfig
from services.executor.models.memory import kv_bytes_per_token
from services.executor.numerics import numerics_digest
from services.executor.self_test import is_batch_invariant
from services.executor.settings import ExecutorSettings
from services.executor.threads import usable_cpus, wait_passively
from services.executor.weights.load import OpenModel, open_model
from services.executor.weights.store import served_name
from services.runtime import logging

_log = logging.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Loaded:
    backend: Backend
    numerics: tuple[str, ...]
    """What the back end's bits depend on besides weights and processor."""


def build_engine(settings: ExecutorSettings) -> Engine:
    """Loads the model that `settings` name, tries it, and returns an engine that is ready for a reset.

    Raises:
        ModelFileError: the model cannot be loaded.
        BadSetting: the settings ask for what there is not.
    """
    wait_passively()  # torch reads this when it is imported, which opening a directory of safetensors already does
    with open_model(Path(settings.model), served_name(settings.model)) as opened:
        choice = choose(settings, opened.description.config)
        if choice.missing:
            _log.warning(
                "the slow reference back end serves, for the compiled CPU kernels cannot", reason=choice.missing
            )
        load = _load_cpu if choice.backend == "cpu" else _load_reference
        loaded = load(settings, choice, opened)
    description = opened.description
    invariant = is_batch_invariant(loaded.backend, description.config.vocab_size)
    digest = numerics_digest(
        description.fingerprint,
        choice.backend,
        choice.dtype,
        *loaded.numerics,
        "invariant" if invariant else "not invariant",
    )
    engine = Engine(
        loaded.backend,
        description.card(numerics_digest=digest, batch_invariant=invariant),
        max_slots=settings.max_slots,
        max_step_tokens=settings.max_step_tokens,
        kill_token=settings.armed_kill_token,
    )
    engine.warm_up()
    loaded.backend.settle()
    return engine


def _num_blocks(settings: ExecutorSettings, choice: Choice, config: DecoderConfig) -> int:
    return blocks_that_fit(kv_bytes_per_token(config, choice.kv_dtype), settings.kv_pool_tokens, settings.kv_memory_mb)


def _load_cpu(settings: ExecutorSettings, choice: Choice, opened: OpenModel) -> _Loaded:
    from kernels.cpu.library import load
    from services.executor.backends.cpu import CpuBackend, pack_model

    library = load()
    library.set_threads(settings.threads or usable_cpus())
    config = opened.description.config
    num_blocks = _num_blocks(settings, choice, config)
    model = pack_model(library, config, opened.weights, choice.dtype, num_blocks * BLOCK_SIZE)
    return _Loaded(CpuBackend(model, num_blocks, library), (library.level, library.version))


def _load_reference(settings: ExecutorSettings, choice: Choice, opened: OpenModel) -> _Loaded:
    import torch

    from services.executor.backends.reference import ReferenceBackend
    from services.executor.backends.reference_decoder import Decoder
    from services.executor.backends.reference_weights import float32_tensors

    torch.set_num_threads(settings.threads or usable_cpus())
    config = opened.description.config
    num_blocks = _num_blocks(settings, choice, config)
    decoder = Decoder(config, float32_tensors(opened.weights, config), num_blocks * BLOCK_SIZE)
    return _Loaded(ReferenceBackend(decoder, num_blocks), (torch.__version__, torch.backends.cpu.get_cpu_capability()))
