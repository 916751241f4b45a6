"""From settings to an engine that is ready: the model's files, the back end that computes it, a first run."""

from pathlib import Path

from services.executor.backends.backend import Backend
from services.executor.blocks import blocks_that_fit
from services.executor.engine import Engine
from services.executor.models.config import DecoderConfig
from services.executor.models.memory import kv_bytes_per_token
from services.executor.numerics import numerics_digest
from services.executor.self_test import is_batch_invariant
from services.executor.settings import ExecutorSettings
from services.executor.threads import usable_cpus
from services.executor.weights.load import load_model
from services.executor.weights.model_description import ModelDescription
from services.executor.weights.store import served_name


def build_engine(settings: ExecutorSettings) -> Engine:
    """Loads the model that `settings` name, warms it up, and returns an engine that is ready for a reset.

    Raises:
        ModelFileError: the model cannot be loaded.
    """
    backend, description, numerics = _reference(settings)
    invariant = is_batch_invariant(backend, description.config.vocab_size)
    digest = numerics_digest(description.fingerprint, *numerics, "invariant" if invariant else "not invariant")
    engine = Engine(
        backend,
        description.card(numerics_digest=digest, batch_invariant=invariant),
        max_slots=settings.max_slots,
        max_step_tokens=settings.max_step_tokens,
        kill_token=settings.armed_kill_token,
    )
    engine.warm_up()
    return engine


def _num_blocks(settings: ExecutorSettings, config: DecoderConfig, kv_dtype: str) -> int:
    return blocks_that_fit(kv_bytes_per_token(config, kv_dtype), settings.kv_pool_tokens, settings.kv_memory_mb)


def _reference(settings: ExecutorSettings) -> tuple[Backend, ModelDescription, tuple[str, ...]]:
    """The back end, the model, and what the bits of the one depend on besides the processor."""
    import torch

    from services.executor.backends.reference import ReferenceBackend
    from services.executor.backends.reference_decoder import Decoder

    torch.set_num_threads(settings.threads or usable_cpus())
    model = load_model(Path(settings.model), torch.float32, served_name(settings.model))
    tensors = dict(model.tensors)
    decoder = Decoder(model.config, tensors)
    backend = ReferenceBackend(decoder, _num_blocks(settings, model.config, "float32"))
    return backend, model, ("reference", "float32", torch.__version__, torch.backends.cpu.get_cpu_capability())
