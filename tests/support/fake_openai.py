"""A tiny OpenAI-compatible HTTP server on loopback, in a thread: streams words as server-sent events, or misbehaves."""

import asyncio
import json
import threading
from dataclasses import dataclass
from typing import Any, Literal, Self


@dataclass
class Behaviour:
    """How it answers."""

    usage: Literal["none", "end", "last", "running"] = "end"
    """end: in an event without choices. last: in the event that says why it ended. running: a count in every event."""
    tokens_per_event: int = 1
    refuses_extra_fields: bool = False
    lists_models: bool = True
    status: int = 200
    cut_after: int | None = None  # events
    raw_event: str = ""  # sent instead of the second event
    says_done: bool = True
    says_close: bool = True
    """False: a connection seems good for another request, and is closed when one comes."""


class FakeOpenAi:
    """Within `with`, serves at `url`. Every request's path, headers and body are kept."""

    def __init__(self, **behaviour: Any) -> None:
        self.behaviour = Behaviour(**behaviour)
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def bodies(self) -> list[Any]:
        """Of the requests for answers, the probe first."""
        return [body for path, _, body in self.requests if body is not None]

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        self._loop.run_forever()
        server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            path = head[0].split()[1]
            self.requests.append((path, headers, json.loads(body) if body else None))
            await self._answer(path, self.requests[-1][2], writer)
            if not self.behaviour.says_close:
                await reader.read(1)
        finally:
            writer.close()

    async def _answer(self, path: str, body: Any, writer: asyncio.StreamWriter) -> None:
        status, behaviour = self.behaviour.status, self.behaviour
        if path == "/v1/models":
            listed = {"data": [{"id": "tiny"}]} if behaviour.lists_models else {"detail": "not here"}
            writer.write(_head(200, "application/json") + json.dumps(listed).encode())
        elif behaviour.refuses_extra_fields and "ignore_eos" in body:
            writer.write(_head(422, "application/json") + b'{"error": "unknown field"}')
        elif status != 200:
            writer.write(_head(status, "text/plain") + b"not now\n")
        else:
            writer.write(_head(200, "text/event-stream", chunked=not behaviour.says_close))
            for event in self._events(body, chat=path.endswith("chat/completions")):
                data = f"data: {event}\n\n"
                writer.write((data if behaviour.says_close else _chunk(data)).encode())
                await writer.drain()
            if not behaviour.says_close:
                writer.write(_chunk("").encode())
        await writer.drain()

    def _events(self, body: Any, *, chat: bool) -> list[str]:
        behaviour = self.behaviour
        usage = {"prompt_tokens": 7, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 3}}
        events: list[Any] = [_choice("", chat=chat, role=True)] if chat else []
        for done in range(0, body["max_tokens"], behaviour.tokens_per_event):
            usage["completion_tokens"] = min(done + behaviour.tokens_per_event, body["max_tokens"])
            events.append(_choice(" word", chat=chat))
            if behaviour.usage == "running":
                events[-1]["usage"] = dict(usage)
        events.append(_choice("", chat=chat, finish_reason="length"))
        if behaviour.usage == "end":
            events.append({"choices": [], "usage": usage})
        elif behaviour.usage in ("last", "running"):
            events[-1]["usage"] = usage
        texts = [json.dumps(event) for event in events]
        if behaviour.raw_event:
            texts[1] = behaviour.raw_event
        if behaviour.cut_after is not None:
            return texts[: behaviour.cut_after]
        return [*texts, "[DONE]"] if behaviour.says_done else texts


def _choice(text: str, *, chat: bool, role: bool = False, finish_reason: str | None = None) -> dict[str, Any]:
    content = {"role": "assistant", "content": text} if role else {"content": text}
    choice = {"delta": content} if chat else {"text": text}
    return {"choices": [{"index": 0, "finish_reason": finish_reason, **choice}]}


def _head(status: int, kind: str, *, chunked: bool = False) -> bytes:
    length = "Transfer-Encoding: chunked" if chunked else "Connection: close"
    return f"HTTP/1.1 {status} Whatever\r\nContent-Type: {kind}\r\n{length}\r\n\r\n".encode()


def _chunk(data: str) -> str:
    return f"{len(data):x}\r\n{data}\r\n"
