"""A supervised child process, and when one that died is started again."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from services.runtime.settings import SUPERVISOR_PID

HEALTHY_S = 10.0  # a child that lived so long has started well
_FIRST_PAUSE_S = 0.2
_MAX_PAUSE_S = 5.0
# numpy's matrix library starts a thread for each CPU when it is imported; no process of ours multiplies with it.
_USUAL = {"OPENBLAS_NUM_THREADS": "1"}


@dataclass(slots=True)
class Restarts:
    """The restarts of one child: the first at once, the next after pauses that double while it dies young."""

    deaths: int = 0  # in a row, each within HEALTHY_S of its start

    def pause_s(self, lived_s: float) -> float:
        """How long to wait before the child that has just died, `lived_s` old, is started again."""
        self.deaths = 1 if lived_s >= HEALTHY_S else self.deaths + 1
        return 0.0 if self.deaths == 1 else min(_FIRST_PAUSE_S * 2.0 ** (self.deaths - 2), _MAX_PAUSE_S)


@dataclass(slots=True)
class Child:
    """One process under supervision, over its restarts. Times are the caller's monotonic clock, in seconds."""

    name: str
    flags: Sequence[str]
    environment: Mapping[str, str]
    restarts: Restarts = field(default_factory=Restarts)
    process: "subprocess.Popen[bytes] | None" = None
    started_s: float = 0.0
    start_again_s: float | None = None  # when, while it is down

    def start(self, now_s: float) -> None:
        command = [sys.executable, "-P", "-m", "services.cli.main", "serve", self.name, *self.flags]
        environment = {**_USUAL, **self.environment, SUPERVISOR_PID: str(os.getpid())}
        # A process group of its own: Ctrl-C reaches the supervisor alone, which ends its children in order.
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, process_group=0)  # noqa: S603
        self.started_s, self.start_again_s = now_s, None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def died(self, now_s: float) -> int | None:
        """The exit status, once, of a child that has ended; plans its next start."""
        if self.process is None or (status := self.process.poll()) is None:
            return None
        self.process = None
        self.start_again_s = now_s + self.restarts.pause_s(now_s - self.started_s)
        return status

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)


def describe_exit(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"
