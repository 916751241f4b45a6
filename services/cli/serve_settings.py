"""What can be set about `headway serve`."""

from dataclasses import dataclass
from typing import Literal

from services.runtime.lifecycle import BadSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """Settings of a whole server; what its processes can be told beside these is theirs.

    Attributes:
        model: A GGUF file, a Hugging Face directory, or the name of a model that `headway model` knows; empty is the
            default model, fetched when it is not there.
        fake: Serve a simulated executor: no model, no torch.
        listen: Address that clients connect to, host:port or unix:PATH; empty is the router's setting.
        allow_public: Listen on addresses beyond this machine, although the connection is not encrypted.
        port: Another port for that address; 0 takes a free one.
        kv_memory_mb: Memory for the KV pool, in MiB; unset is the executor's setting.
        batching: static is a baseline to measure against: no request joins a batch before all of it have ended; unset is
            the scheduler's setting.
        ready_file: Written, with the address in it, once the server serves; empty is none.
        log_level: Quieter than this is not logged by the processes.
    """

    model: str = ""
    fake: bool = False
    listen: str = ""
    allow_public: bool = False
    port: int | None = None
    kv_memory_mb: int | None = None
    batching: Literal["continuous", "static"] | None = None
    ready_file: str = ""
    log_level: Literal["debug", "info", "warning", "error"] = "warning"

    def __post_init__(self) -> None:
        if self.port is not None and not 0 <= self.port <= 65535:
            raise BadSetting("port must be between 0 and 65535")
        if self.kv_memory_mb is not None and self.kv_memory_mb < 1:
            raise BadSetting("kv_memory_mb must be at least 1")
        if self.fake and self.model:
            raise BadSetting("fake serves no model: give either --fake or --model")
