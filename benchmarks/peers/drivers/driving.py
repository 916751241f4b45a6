"""Driving: the loop around an engine inside its own environment, from lines of asks to lines of tokens."""

import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from io import TextIOBase
from queue import SimpleQueue
from threading import Thread
from typing import TextIO

from benchmarks.peers.line import Ask, Ready, Told, line_of, message_of


class Teller:
    """Collects what a step brings and tells it in one line."""

    def __init__(self, out: TextIO | TextIOBase) -> None:
        self._out = out
        self._told = Told(0.0)

    def tokens(self, request_id: int, token_ids: list[int]) -> None:
        if token_ids:
            self._told.tokens.setdefault(request_id, []).extend(token_ids)

    def finished(self, request_id: int) -> None:
        self._told.finished.append(request_id)

    def failed(self, request_id: int, reason: str) -> None:
        self._told.failed[request_id] = reason

    def tell(self) -> None:
        """Writes what has come since the last line, if anything has."""
        told, self._told = self._told, Told(0.0)
        if told.tokens or told.finished or told.failed:
            self._write(Told(time.perf_counter(), told.tokens, told.finished, told.failed))

    def ready(self) -> None:
        self._write(Ready())

    def _write(self, message: Ready | Told) -> None:
        self._out.write(line_of(message))
        self._out.flush()


class Engine(ABC):
    """A peer behind two verbs."""

    @abstractmethod
    def add(self, ask: Ask) -> None:
        """Takes a request; `step` does the work."""

    @abstractmethod
    def step(self, teller: Teller) -> bool:
        """Works on all that was added for as long as one step lasts; False: nothing is left to do."""


def drive(load: Callable[[], Engine]) -> None:
    """Loads the engine, answers asks until the ruler closes the pipe, and ends the process, whatever threads it has."""
    out = _own_stdout()
    inbox: SimpleQueue[Ask | None] = SimpleQueue()
    engine = load()
    teller = Teller(out)
    Thread(target=_read, args=(inbox,), daemon=True).start()
    teller.ready()
    busy = False
    while True:
        while not busy or not inbox.empty():
            ask = inbox.get()
            if ask is None:
                out.close()
                os._exit(0)
            engine.add(ask)
            busy = True
        busy = engine.step(teller)
        teller.tell()


def _read(inbox: "SimpleQueue[Ask | None]") -> None:
    try:
        for line in sys.stdin:
            message = message_of(line)
            if isinstance(message, Ask):
                inbox.put(message)
    finally:
        inbox.put(None)


def _own_stdout() -> TextIO:
    """Standard output for the protocol alone: whatever else is printed, by C++ as well, goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return out
