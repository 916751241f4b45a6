"""The supervisor: starts the processes of one server, starts again the one that dies, and ends them in order."""

import signal
import time
from collections.abc import Callable, Sequence

from services.cli.children import HEALTHY_S, Child, describe_exit
from services.cli.signals import SignalInbox
from services.runtime.lifecycle import REPEAT_S, ExitCode

_TICK_S = 0.1
_PROBE_INTERVAL_S = 0.25
_SILENCE_S = 5.0  # on a busy machine one answer may well be late
_MAX_FIRST_DEATHS = 3  # before the server was ever ready
_KILL_WAIT_S = 10.0

_ENDING = {signal.SIGTERM, signal.SIGINT}

Report = Callable[[str], None]


class Supervisor:
    """Runs `children`, given in the order in which they are told to end."""

    def __init__(self, children: Sequence[Child], *, ready: Callable[[], bool | None], report: Report) -> None:
        """`ready` says within a fraction of a second whether the server serves, None where it does not answer.

        `report` is told what happens.
        """
        self._children = children
        self._ready = ready
        self._report = report
        self._was_ready = False
        self._ever_ready = False
        self._next_probe_s = 0.0
        self._answered_s = 0.0

    def run(self, inbox: SignalInbox, when_ready: Callable[[], None]) -> int:
        """Serves until a signal ends it, or the first start fails; the exit code. `when_ready` is called once."""
        try:
            for child in self._children:
                child.start(time.monotonic())
            while True:
                if asked := inbox.wait(_TICK_S) & _ENDING:
                    return self._end(inbox, asked)
                if (failure := self._tend(self._children)) is not None:
                    return failure
                self._watch(when_ready)
        finally:
            self._kill()

    def _tend(self, children: Sequence[Child]) -> int | None:
        """Starts again what has died; the exit code when that is hopeless."""
        for child in children:
            now_s = time.monotonic()
            if (status := child.died(now_s)) is not None:
                if (failure := self._first_start_failed(child, status)) is not None:
                    return failure
                self._report(f"the {child.name} ended ({describe_exit(status)}){self._next_start(child, now_s)}")
            if child.start_again_s is not None and child.start_again_s <= now_s:
                child.start(now_s)
        return None

    def _first_start_failed(self, child: Child, status: int) -> int | None:
        if self._ever_ready:
            return None
        if status == ExitCode.BAD_SETTING:
            self._report(f"the {child.name} cannot start with these settings; the reason is above")
            return ExitCode.BAD_SETTING
        if child.restarts.deaths >= _MAX_FIRST_DEATHS:
            times = child.restarts.deaths
            self._report(
                f"the {child.name} ended {times} times before it was ready ({describe_exit(status)}): giving up"
            )
            return ExitCode.BROKEN
        return None

    @staticmethod
    def _next_start(child: Child, now_s: float) -> str:
        pause_s = (child.start_again_s or now_s) - now_s
        if not pause_s:
            return "; starting it again"
        return f", {child.restarts.deaths} times within {HEALTHY_S:.0f} s of its start; next try in {pause_s:.1f} s"

    def _watch(self, when_ready: Callable[[], None]) -> None:
        """Says when the server begins and ceases to serve."""
        if time.monotonic() < self._next_probe_s:
            return
        is_ready = self._ready()
        now_s = time.monotonic()
        self._next_probe_s = now_s + _PROBE_INTERVAL_S
        if is_ready is None:
            if self._was_ready and now_s - self._answered_s >= _SILENCE_S:
                self._was_ready = False
                self._report(f"the server has not answered for {_SILENCE_S:.0f} s")
            return
        self._answered_s = now_s
        if is_ready and not self._ever_ready:
            self._ever_ready = True
            when_ready()
        elif is_ready != self._was_ready:
            self._report("ready again" if is_ready else "not ready")
        self._was_ready = is_ready

    def _end(self, inbox: SignalInbox, asked: set[int]) -> int:
        """Drains: each child ends after the one before it has. A second signal ends all at once.

        The signals in `asked`, when they come again right after, are the same request and not a second one.
        """
        repeat_ends_s = time.monotonic() + REPEAT_S
        self._report("ending: answers that are being given are finished first; a second signal ends at once")
        for index, child in enumerate(self._children):
            child.send(signal.SIGTERM)
            while child.running:
                again = inbox.wait(_TICK_S) & _ENDING
                if again - asked or (again and time.monotonic() >= repeat_ends_s):
                    self._report("ended by a second signal")
                    return ExitCode.FORCED
                self._tend(self._children[index + 1 :])  # answers that are still being given need them
        return ExitCode.OK

    def _kill(self) -> None:
        """Nothing outlives the supervisor."""
        for child in self._children:
            child.send(signal.SIGKILL)
        for child in self._children:
            if child.process is not None:
                child.process.wait(_KILL_WAIT_S)
