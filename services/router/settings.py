"""What can be set about a router."""

from dataclasses import dataclass

from services.runtime.lifecycle import BadSetting
from services.runtime.listen import check_listen
from services.runtime.log_options import LogFormat, LogLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSettings:
    """Settings of one router process.

    Attributes:
        listen: Address that clients connect to, host:port or unix:PATH; port 0 takes a free one.
        allow_public: Listen on addresses beyond this machine, although the connection is not encrypted.
        ready_file: File that the bound address is written to once it is known; empty: none.
        schedulers: Addresses of the schedulers, host:port or unix:PATH.
        name: The router's name in the logs of its schedulers.
        salt_secret_file: File of mode 0600 with the key of the tenants' prefix-cache salts. Routers that share
            schedulers share it too, so that a prompt finds its blocks through any of them; empty: one fixed key.
        max_live_requests: Requests that may be live at once; more are refused with a time to come back.
        max_requests_per_call: Requests that may be live at once in one GenerateMany call.
        max_concurrent_rpcs: Calls of all kinds at once, health checks included; more than the limits of all kinds together.
        max_many_calls: GenerateMany calls at once. Generate and Complete calls are bounded by max_live_requests.
        max_short_calls: Calls at once of the methods that compute no answer, such as Tokenize and Explain.
        max_watch_calls: Watch calls of the health service, and reflection calls, at once.
        max_concurrent_streams: Calls at once on one connection.
        max_message_bytes: The largest message that is read. A larger one ends with a status that names no field.
        max_request_bytes: The largest message that is parsed. A larger one is refused by its largest field.
        max_metadata_bytes: The largest metadata that is read.
        max_prompt_bytes: The most text that one prompt may hold, checked before it is tokenized.
        max_n: The most answers to one prompt.
        max_stop_strings: The most stop strings of one request.
        keepalive_time_s: A connection without traffic is pinged after this.
        keepalive_timeout_s: A connection whose ping is not answered within this is closed.
        min_client_ping_interval_s: A client that pings more often is disconnected.
        scheduler_grace_s: How long a request waits for a scheduler before it ends UNAVAILABLE.
        scheduler_silence_s: A scheduler that says nothing for this long is taken for lost.
        load_max_age_s: The router is not ready when no scheduler's load is younger than this.
        idle_call_s: A call without a request, or a GenerateMany call without a live one, is ended after this.
        slow_reader_s: A client that takes nothing for this long is cancelled.
        drain_timeout_s: How long live requests may take to end after SIGTERM.
        log_level: Quieter than this is not logged.
        log_format: One line an event: json for machines, console for people.
    """

    listen: str = "127.0.0.1:50051"
    allow_public: bool = False
    ready_file: str = ""
    schedulers: tuple[str, ...] = ("127.0.0.1:50052",)
    name: str = "router"
    salt_secret_file: str = ""
    max_live_requests: int = 4096
    max_requests_per_call: int = 256
    max_concurrent_rpcs: int = 8192
    max_many_calls: int = 1024
    max_short_calls: int = 1024
    max_watch_calls: int = 512
    max_concurrent_streams: int = 256
    max_message_bytes: int = 8 * 1024 * 1024
    max_request_bytes: int = 2 * 1024 * 1024
    max_metadata_bytes: int = 16 * 1024
    max_prompt_bytes: int = 1024 * 1024
    max_n: int = 16
    max_stop_strings: int = 16
    keepalive_time_s: float = 60.0
    keepalive_timeout_s: float = 20.0
    min_client_ping_interval_s: float = 30.0
    scheduler_grace_s: float = 60.0
    scheduler_silence_s: float = 5.0
    load_max_age_s: float = 2.0
    idle_call_s: float = 60.0
    slow_reader_s: float = 60.0
    drain_timeout_s: float = 300.0
    log_level: LogLevel = "info"
    log_format: LogFormat = "console"

    def __post_init__(self) -> None:
        check_listen(self.listen, allow_public=self.allow_public)
        if not self.schedulers or not all(self.schedulers):
            raise BadSetting("schedulers: at least one address is needed, and none may be empty")
        if len(set(self.schedulers)) != len(self.schedulers):
            raise BadSetting("schedulers: an address is named twice")
        for field in _POSITIVE:
            if not getattr(self, field) > 0:
                raise BadSetting(f"{field}: must be greater than 0")
        if not self.max_prompt_bytes < self.max_request_bytes <= self.max_message_bytes:
            why = "must be greater than max_prompt_bytes and at most max_message_bytes"
            raise BadSetting(f"max_request_bytes: {why}")
        if self.num_spare_rpcs <= 0:
            bounded = self.max_concurrent_rpcs - self.num_spare_rpcs
            why = f"must be greater than {bounded}, which the limits of the kinds of calls allow, to leave room for health"
            raise BadSetting(f"max_concurrent_rpcs: {why}")

    @property
    def num_spare_rpcs(self) -> int:
        """Calls at once that the limits of the kinds leave to health checks, and to calls that are refused."""
        bounded = self.max_live_requests + self.max_many_calls + self.max_short_calls + self.max_watch_calls
        return self.max_concurrent_rpcs - bounded


_POSITIVE = (
    "max_live_requests",
    "max_requests_per_call",
    "max_concurrent_rpcs",
    "max_many_calls",
    "max_short_calls",
    "max_watch_calls",
    "max_concurrent_streams",
    "max_message_bytes",
    "max_request_bytes",
    "max_metadata_bytes",
    "max_prompt_bytes",
    "max_n",
    "max_stop_strings",
    "keepalive_time_s",
    "keepalive_timeout_s",
    "min_client_ping_interval_s",
    "scheduler_grace_s",
    "scheduler_silence_s",
    "load_max_age_s",
    "idle_call_s",
    "slow_reader_s",
    "drain_timeout_s",
)
