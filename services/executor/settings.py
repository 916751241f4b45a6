"""What an operator can choose about an executor process."""

import os
from dataclasses import dataclass
from typing import Literal

from services.runtime.lifecycle import BadSetting
from services.runtime.log_options import LogFormat, LogLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    """Settings of one executor; `simulated_*` are read by the simulated back end alone."""

    scheduler_endpoint: str = "ipc:///tmp/headway-executor.sock"
    """The scheduler's ZeroMQ address: ipc://PATH, or tcp://HOST:PORT with a CURVE key file."""
    curve_key_file: str = ""
    """A file of mode 0600 with the CURVE keys of this link."""
    backend: Literal["auto", "cpu", "reference", "simulated"] = "auto"
    """What computes: cpu (compiled kernels), reference (plain torch), the better one that there is (auto), or nothing
    real (simulated: no model, no torch)."""
    model: str = ""
    """A GGUF file or a Hugging Face directory; empty for the simulated back end."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """The precision of weights: as the model file stores them (auto), or converted. Keys and values are float32 where
    weights are converted to that, else bfloat16."""
    max_slots: int = 256
    """The most sequences in one step that this executor accepts."""
    max_step_tokens: int = 8192
    """The most tokens in one step that this executor accepts."""
    kv_pool_tokens: int = 0
    """Tokens that the KV pool holds; 0: derived from kv_memory_mb."""
    kv_memory_mb: int = 512
    """Memory for the KV pool, in MiB; on CPUs it is taken right after the start."""
    threads: int = 0
    """Compute threads; 0: the CPUs that this process may use."""
    simulated_script: Literal["echo", "count", "random"] = "echo"
    """What the simulated back end answers: the user's text, numbers, or a function of seed and tokens."""
    simulated_num_blocks: int = 4096
    """KV blocks of the simulated back end."""
    simulated_step_fixed_us: int = 1000
    """Simulated time of a step, whatever it computes."""
    simulated_step_per_token_us: int = 20
    """Simulated time for each token computed."""
    simulated_step_per_context_token_ns: int = 5
    """Simulated time for each token of context read."""
    log_level: LogLevel = "info"
    """Quieter than this is not logged."""
    log_format: LogFormat = "console"
    """One line an event: json for machines, console for people."""
    test_kill_token: int = -1
    """Test hook: with HEADWAY_TEST_HOOKS=1, a prompt that holds this token id kills the process at its output 40."""

    def __post_init__(self) -> None:
        if self.scheduler_endpoint.startswith("tcp://") and not self.curve_key_file:
            raise BadSetting(
                "scheduler_endpoint: tcp needs CURVE keys; name their file in curve_key_file, or use ipc://PATH"
            )
        for name in ("max_slots", "max_step_tokens", "kv_memory_mb", "simulated_num_blocks"):
            if getattr(self, name) < 1:
                raise BadSetting(f"{name} must be at least 1")
        for name in ("kv_pool_tokens", "threads"):
            if getattr(self, name) < 0:
                raise BadSetting(f"{name} must not be negative")
        if min(self.simulated_step_fixed_us, self.simulated_step_per_token_us) < 0:
            raise BadSetting("a simulated step cannot take negative time")
        if self.simulated_step_per_context_token_ns < 0:
            raise BadSetting("a simulated step cannot take negative time")

    @property
    def armed_kill_token(self) -> int:
        """`test_kill_token`, or -1 in a process where test hooks are not allowed."""
        return self.test_kill_token if os.environ.get("HEADWAY_TEST_HOOKS") == "1" else -1
