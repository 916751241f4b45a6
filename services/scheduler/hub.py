"""Where the two threads meet: the core's thread hands over what goes out, the event loop keeps who it goes to."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from services.runtime.errors import Refusal
from services.scheduler.router_stream import RouterStream
from services.scheduler.watcher import Watcher
from services.wire import codec
from services.wire.scheduling import GetModelCardResponse, Load, StepRecord, ToRouter

STALE_S = 2.0  # a core that has not spoken for so long is not ready


class Hub:
    """Streams and watchers, and the last word of the core. Methods under "core's thread" may be called from it alone."""

    def __init__(self, loop: asyncio.AbstractEventLoop, backlog_limit_bytes: int) -> None:
        self._loop = loop
        self._backlog_limit_bytes = backlog_limit_bytes
        self._streams: dict[int, RouterStream] = {}
        self._watchers: set[Watcher] = set()
        self._last_router = 0
        self._load: Load | None = None
        self._load_s = 0.0
        self.card = codec.encode(GetModelCardResponse(ready=False))
        self.ready_changed = asyncio.Event()
        self.is_watched = False  # read by the core's thread, which makes no records for nobody
        self.draining = False

    # ---- the event loop

    def open_stream(self) -> RouterStream:
        """A stream for a router that attaches now, under a number that no other had."""
        self._last_router += 1
        stream = RouterStream(self._last_router, self._backlog_limit_bytes)
        self._streams[stream.router] = stream
        return stream

    def close_stream(self, stream: RouterStream) -> None:
        self._streams.pop(stream.router, None)

    def open_watcher(self, max_records_per_second: int) -> Watcher:
        watcher = Watcher(max_records_per_second)
        self._watchers.add(watcher)
        self.is_watched = True
        return watcher

    def close_watcher(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)
        self.is_watched = bool(self._watchers)

    def end_all(self) -> None:
        """Ends every stream when all has been written to it."""
        for stream in self._streams.values():
            stream.end()
        for watcher in self._watchers:
            watcher.end()

    def is_ready(self) -> bool:
        """Whether work sent here would move; a core that does not speak is not ready."""
        load = self._load
        fresh = load is not None and self._loop.time() - self._load_s < STALE_S
        return fresh and load is not None and load.making_progress and not self.draining

    # ---- the core's thread

    def deliver(self, messages: Sequence[tuple[int, ToRouter]]) -> None:
        """Messages for routers, in order."""
        self._call(self._deliver, [(router, codec.encode(message)) for router, message in messages])

    def refuse(self, router: int, refusal: Refusal) -> None:
        """Ends a router's stream with a status."""
        self._call(self._refuse, router, refusal)

    def tell_load(self, load: Load) -> None:
        """The newest Load, for every router and for readiness."""
        self._call(self._tell_load, load, codec.encode(ToRouter(body=load)))

    def tell_card(self, card: GetModelCardResponse) -> None:
        self._call(self._tell_card, codec.encode(card))

    def tell_record(self, record: StepRecord) -> None:
        if self.is_watched:
            self._call(self._tell_record, record)

    def tell_draining(self) -> None:
        """Not ready from now on."""
        self.draining = True
        self._call(self.ready_changed.set)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._loop.call_soon_threadsafe(function, *arguments)

    # ---- the event loop, called from the core's thread

    def _deliver(self, messages: Sequence[tuple[int, bytes]]) -> None:
        for router, message in messages:
            if stream := self._streams.get(router):
                stream.push(message)

    def _refuse(self, router: int, refusal: Refusal) -> None:
        if stream := self._streams.get(router):
            stream.refuse(refusal)

    def _tell_load(self, load: Load, encoded: bytes) -> None:
        before = self.is_ready()
        self._load, self._load_s = load, self._loop.time()
        if self.is_ready() is not before:
            self.ready_changed.set()
        for stream in self._streams.values():
            stream.set_load(encoded)

    def _tell_card(self, card: bytes) -> None:
        self.card = card

    def _tell_record(self, record: StepRecord) -> None:
        for watcher in self._watchers:
            watcher.show(record)
