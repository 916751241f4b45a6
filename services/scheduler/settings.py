"""What an operator can choose about a scheduler process: the core's settings, flattened, and the service's own."""

from dataclasses import dataclass, fields

from services.runtime.lifecycle import BadSetting
from services.runtime.listen import check_listen
from services.runtime.log_options import LogFormat, LogLevel
from services.scheduler.core.latency_class import PRESETS
from services.scheduler.core.settings import BatchingMode, CoreSettings, PolicyName


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
    """Requests that may wait for a slot; more are refused with a time to come back. Batch work takes no room of others."""
    max_waiting_tokens: int = 1_000_000
    """Tokens that all waiting requests together may hold; more are refused likewise."""
    default_max_tokens: int = 512
    """The most tokens of an answer whose request sets no max_tokens."""
    max_tokens_cap: int = 32_768
    """The greatest max_tokens that a request may set."""
    executor_grace_us: int = 60_000_000
    """How long a request waits for an absent executor, in microseconds."""
    pipeline_depth: int = 2
    """Plans that may be unanswered at once."""
    tbt_target_us: int = 0
    """The longest that a step is to take in which some decode, in microseconds; prompts get what it leaves. 0: no target."""
    pass_blocked_us: int = 1_000_000
    """How long requests that fit may pass one that is next and has not enough KV blocks, in microseconds."""
    latency_classes: str = PRESETS
    """Latency classes that requests may name: NAME=TTFT/TBT, targets in milliseconds, or NAME=spare for what the others leave; a /WEIGHT may follow."""
    default_latency_class: str = ""
    """The latency class of requests that name none; empty is one without targets."""
    prefix_cache: bool = True
    """Keep the KV blocks of prompts that have been computed, for later ones that begin alike."""
    policy: PolicyName = "fcfs"
    """Who is next, and who gives way when KV blocks run out: by arrival, by priority, the tenant served least, or by deadline."""
    priority_ageing_us: int = 1_000_000
    """How long a wait a level of priority is worth, in microseconds, where policy is priority."""
    batching: BatchingMode = "continuous"
    """static: no request joins a batch before all of it have ended. A baseline to measure against, not to serve with."""
    executor_heartbeat_timeout_s: float = 2.0
    """Without a heartbeat for so long the scheduler is not ready."""
    executor_lost_timeout_s: float = 5.0
    """Without a heartbeat for so long the executor is lost, and killed where that is possible."""
    router_backlog_bytes: int = 16 << 20
    """A router that does not read is cut off when more than this waits for it."""
    drain_timeout_s: float = 60.0
    """After SIGTERM, live sequences have so long to finish."""
    record: str = ""
    """A file for the event log; empty: none is kept. One that is there is kept, and PATH.1, PATH.2 and so on are tried."""
    log_level: LogLevel = "info"
    """Quieter than this is not logged."""
    log_format: LogFormat = "console"
    """One line an event: json for machines, console for people."""

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
