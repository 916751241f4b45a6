"""A tiny random decoder and an engine on it: every path of the real one, in milliseconds."""

import torch

from services.executor.backends.reference import ReferenceBackend
from services.executor.backends.reference_decoder import Decoder
from services.executor.blocks import BLOCK_SIZE
from services.executor.engine import Engine
from services.executor.models.config import DecoderConfig
from services.executor.weights.layout import expected_shapes
from services.wire.execution import ModelCard
from services.wire.message import int32_column

EOS_ID = 1


def tiny_config(**changes) -> DecoderConfig:
    """Two layers, six heads over two KV heads (a group of three does not divide a tile), 97 tokens."""
    fields = {
        "architecture": "llama",
        "vocab_size": 97,
        "hidden_size": 48,
        "num_layers": 2,
        "num_heads": 6,
        "num_kv_heads": 2,
        "head_dim": 8,
        "intermediate_size": 64,
        "context_length": 1024,
        "norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_embeddings": False,
    }
    return DecoderConfig(**(fields | changes))


def random_tensors(config: DecoderConfig, seed: int = 0) -> dict[str, torch.Tensor]:
    """Weights of every name and shape that the config asks for, scaled so that greedy output varies."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in expected_shapes(config).items():
        noise = torch.randn(shape, generator=generator)
        tensors[name] = 1.0 + 0.1 * noise if "norm" in name else noise * (1.0 if name == "embed.weight" else 0.2)
    return tensors


def tiny_card(config: DecoderConfig) -> ModelCard:
    """The card of a tiny model; token 1 ends a sequence."""
    return ModelCard(
        name="tiny",
        fingerprint="00",
        numerics_digest="00",
        batch_invariant=True,
        context_length=config.context_length,
        vocab_size=config.vocab_size,
        eos_ids=int32_column([EOS_ID]),
    )


def tiny_backend(num_blocks: int = 64, config: DecoderConfig | None = None) -> ReferenceBackend:
    """The reference back end with random weights."""
    config = config or tiny_config()
    return ReferenceBackend(Decoder(config, random_tensors(config), num_blocks * BLOCK_SIZE), num_blocks)


def tiny_engine(config: DecoderConfig | None = None, **room) -> Engine:
    """An engine with 64 blocks, 8 slots and 512 tokens a step unless told otherwise."""
    config = config or tiny_config()
    limits = {"max_slots": 8, "max_step_tokens": 512} | room
    return Engine(tiny_backend(limits.pop("num_blocks", 64), config), tiny_card(config), **limits)
