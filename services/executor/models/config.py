"""A decoder described by data: the differences within the Llama family are fields, not subclasses.

Needs neither torch nor numpy, nor do the modules that read it from a file: `headway model inspect` works on any machine.
"""

from dataclasses import dataclass

from services.executor.models.rope_scaling import RopeScaling
from services.executor.weights.errors import MalformedModel

# The most that a file may claim: more is a broken file, or one that means harm.
MAX_VOCAB = 1 << 22
MAX_WIDTH = 1 << 17
MAX_INTERMEDIATE = 1 << 20
MAX_LAYERS = 1024
MAX_HEADS = 1024
MAX_HEAD_DIM = 1024
MAX_EXPERTS = 1 << 20
MIN_CONTEXT_LENGTH = 3
"""A token of a prompt and two drawn: with less, nothing can be tried before it is served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """The shape of one decoder. Every linear weight is [out, in]; rotary halves are split, not interleaved.

    `context_length` is what may be served. Attention is always over the whole context, so a model with a sliding window
    is served up to its window: within it, windowed and full attention are the same function.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    context_length: int
    norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None = None
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    tie_embeddings: bool = False
    sliding_window: int | None = None
    activation: str = "silu"
    eos_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.context_length < MIN_CONTEXT_LENGTH:
            raise MalformedModel(
                f"the model says that its context, or its sliding window, is {self.context_length} tokens: "
                f"it cannot be served with fewer than {MIN_CONTEXT_LENGTH}"
            )
        if self.num_heads % self.num_kv_heads:
            raise MalformedModel(f"{self.num_heads} attention heads do not divide among {self.num_kv_heads} KV heads")
        if self.head_dim % 2:
            raise MalformedModel(f"a head of {self.head_dim} dimensions has no two rotary halves")
        scaling = self.rope_scaling
        if scaling is not None and scaling.kind == "divisors" and len(scaling.divisors) != self.head_dim // 2:
            raise MalformedModel(f"{len(scaling.divisors)} rotary divisors for a head of {self.head_dim} dimensions")

    @property
    def q_size(self) -> int:
        """Rows of the query projection."""
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Rows of the key projection, and of the value projection."""
        return self.num_kv_heads * self.head_dim

    @property
    def rope_attention_factor(self) -> float:
        """What cosines and sines are multiplied by (1 but for YaRN)."""
        return 1.0 if self.rope_scaling is None else self.rope_scaling.attention_factor

    def inverse_frequencies(self) -> tuple[float, ...]:
        """The head_dim / 2 rotary frequencies in radians per position, scaling applied."""
        plain = tuple(self.rope_theta ** (-2 * index / self.head_dim) for index in range(self.head_dim // 2))
        return plain if self.rope_scaling is None else self.rope_scaling.scaled(plain, self.rope_theta)
