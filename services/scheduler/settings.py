"""What an operator can choose about a scheduler process: the core's settings, flattened, and the service's own."""

from dataclasses import dataclass, fields

from services.runtime.lifecycle import BadSetting
from services.runtime.listen import check_listen
from services.runtime.log_options import LogFormat, LogLevel
from services.scheduler.core.settings import CoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Settings of one scheduler. The fields that CoreSettings has too mean the same there."""

    listen: str = "127.0.0.1:50052"
    """Where routers attach: unix:PATH or HOST:PORT."""
    allow_public: bool = False
    """Allow an address that other machines reach, as containers need; there is no authentication on it."""
    executor_endpoint: str = "ipc:///tmp/headway-executor.sock"
    """Where the executor connects: ipc://PATH, or tcp://HOST:PORT with a CURVE key file."""
    curve_key_file: str = ""
    """A file of mode 0600 with the CURVE keys of the executor's link."""
    max_slots: int = 64
    """Sequences in one step at most."""
    token_budget: int = 512
    """Tokens that one step computes at most, decodes and prefill chunks together."""
    max_waiting_requests: int = 1024
    max_waiting_tokens: int = 1_000_000
    default_max_tokens: int = 512
    """Of a request that sets none."""
    max_tokens_cap: int = 32_768
    executor_grace_us: int = 60_000_000
    """How long a request waits for an absent executor."""
    pipeline_depth: int = 1
    """Plans that may be unanswered at once."""
    prefix_cache: bool = True
    executor_heartbeat_timeout_s: float = 2.0
    """Without a heartbeat for so long the scheduler is not ready."""
    executor_lost_timeout_s: float = 5.0
    """Without a heartbeat for so long the executor is lost, and killed where that is possible."""
    router_backlog_bytes: int = 16 << 20
    """Of a router that does not read: with more than this waiting for it, its stream is closed."""
    drain_timeout_s: float = 60.0
    """After SIGTERM, live sequences have so long to finish."""
    record: str = ""
    """A file for the event log; empty: none is kept."""
    log_level: LogLevel = "info"
    log_format: LogFormat = "console"

    def __post_init__(self) -> None:
        check_listen(self.listen, allow_public=self.allow_public)
        if self.executor_endpoint.startswith("tcp://") and not self.curve_key_file:
            raise BadSetting(
                "executor_endpoint: tcp needs CURVE keys; name their file in curve_key_file, or use ipc://PATH"
            )
        if not 0 < self.executor_heartbeat_timeout_s <= self.executor_lost_timeout_s:
            raise BadSetting("executor_heartbeat_timeout_s must be above 0 and at most executor_lost_timeout_s")
        if self.router_backlog_bytes < 1:
            raise BadSetting("router_backlog_bytes must be at least 1")
        if self.drain_timeout_s < 0:
            raise BadSetting("drain_timeout_s must not be negative")
        try:
            self.core()
        except ValueError as error:
            raise BadSetting(str(error)) from None

    def core(self) -> CoreSettings:
        """The part that the core reads."""
        return CoreSettings(**{field.name: getattr(self, field.name) for field in fields(CoreSettings)})
