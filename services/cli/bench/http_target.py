"""Any OpenAI-compatible HTTP endpoint as a target: streaming /v1/completions, or /v1/chat/completions."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, TCPConnector
from aiohttp.http import HttpProcessingError

from services.cli.bench.result import Record
from services.cli.bench.target import Answer, Broken, Clock, Exchange, Facts, Prompts, Refused, chat_of, ids_of, text_of
from services.cli.bench.workload import Request

_BUSY = {429, 503}
_BAD_FIELDS = {400, 422}
_FACTS_TIMEOUT = ClientTimeout(total=10.0)
_PROBE_TIMEOUT = ClientTimeout(total=60.0)
_NO_TIMEOUT = ClientTimeout(total=None, sock_connect=30.0)  # the limit of a whole request is the runner's
_MAX_LINE_BYTES = 1 << 20
_SHOWN_CHARACTERS = 200


class HttpTarget:
    """A server that speaks the OpenAI API. `url` is what comes before /v1, or ends with it."""

    def __init__(self, url: str, *, model: str, prompts: Prompts, api_key: str = "") -> None:
        self._root = url.rstrip("/").removesuffix("/v1") + "/v1"
        self._model = model
        self._prompts = prompts
        self._forced = True  # until the server refuses the fields that force lengths
        self._place = f"{self._root}/{'chat/completions' if prompts == 'chat' else 'completions'}"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    async def __aenter__(self) -> Self:
        """Each request has a connection of its own: some servers close theirs after a stream without saying so."""
        self._session = ClientSession(
            connector=TCPConnector(limit=0, force_close=True),
            headers=self._headers,
            timeout=_NO_TIMEOUT,
            read_bufsize=_MAX_LINE_BYTES,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def facts(self) -> Facts:
        """Asks which models there are, takes the first where none was named, and tries whether lengths can be forced."""
        try:
            async with self._session.get(f"{self._root}/models", timeout=_FACTS_TIMEOUT) as response:
                served = [each["id"] for each in (await response.json(content_type=None))["data"]]
        except (ClientError, TimeoutError) as error:
            raise Broken(f"no answer from {self._root}: {error or 'it took too long'}") from None
        except (ValueError, KeyError, TypeError):
            served = []  # not every server lists its models
        self._model = self._model or next(iter(served), "")
        if not await self._takes_a_request():
            self._forced = False
        return Facts("OpenAI-compatible HTTP", self._root, self._model, {"forced_lengths": self._forced})

    async def _takes_a_request(self) -> bool:
        """Whether a request of one token, with the fields that force its length, is not refused for them."""
        body = self._body(Request(index=0, prompt=b"\0", output_tokens=1), ())
        try:
            async with self._session.post(self._place, json=body, timeout=_PROBE_TIMEOUT) as response:
                await response.read()
                return response.status not in _BAD_FIELDS
        except (ClientError, TimeoutError) as error:
            raise Broken(f"no answer from {self._place}: {error or 'it took too long'}") from None

    async def send(self, request: Request, before: Sequence[Exchange], record: Record, clock: Clock) -> Answer:
        reader = _Reader(record, clock)
        try:
            async with self._session.post(self._place, json=self._body(request, before)) as response:
                if response.status != 200:
                    await _refuse(response)
                async for data in _events(response):
                    reader.take(data)
        except (ClientError, HttpProcessingError, ValueError) as error:  # the last two for a line beyond all bounds
            raise Broken(f"{type(error).__name__}: {' '.join(str(error).split())[:_SHOWN_CHARACTERS]}") from None
        return reader.finish()

    def _body(self, request: Request, before: Sequence[Exchange]) -> dict[str, Any]:
        length = request.output_tokens
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": length,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._forced:
            body |= {"min_tokens": length, "ignore_eos": True}
            body["stream_options"]["continuous_usage_stats"] = True
        if self._prompts == "chat":
            body["messages"] = chat_of(before, request)
        elif self._prompts == "ids":
            body["prompt"] = ids_of(before, request)
        else:
            body["prompt"] = text_of(before, request)
        return body


class _Reader:
    """Turns the events of one answer into messages of its record."""

    def __init__(self, record: Record, clock: Clock) -> None:
        self._record = record
        self._clock = clock
        self._text: list[str] = []
        self._usage: dict[str, Any] = {}
        self._finished = False
        # Some servers keep a running count of tokens in each event; most tell only the sum, at the end.
        self._runs: bool | None = None
        self._told_tokens = 0

    def take(self, data: str) -> None:
        """One event. Raises `Broken` for one that is an error, or nothing that the API knows."""
        now_s = self._clock.now_s()
        if data == "[DONE]":
            self._finished = True
            return
        try:
            event = json.loads(data)
            if "error" in event:
                raise Broken(f"the server says in its stream: {data[:_SHOWN_CHARACTERS]}")
            usage = event.get("usage") or {}
            self._usage = usage or self._usage
            for choice in event.get("choices") or ():
                ended = choice.get("finish_reason") is not None
                self._finished = self._finished or ended
                self._note(_text_of(choice), usage.get("completion_tokens") or 0, now_s, ended=ended)
        except (ValueError, TypeError, AttributeError):
            raise Broken(f"an event is not of the API's form: {data[:_SHOWN_CHARACTERS]}") from None

    def _note(self, text: str, count: int, now_s: float, *, ended: bool) -> None:
        if self._runs is None and (text or count):
            self._runs = count > 0 and not ended
        told = count - self._told_tokens if self._runs else 0
        if told <= 0 and not text:
            return  # the role that a chat begins with, or the reason it ended
        self._text.append(text)
        self._record.message_s.append(now_s)
        self._record.message_tokens.append(max(told, 1))
        self._told_tokens += max(told, 0)

    def finish(self) -> Answer:
        """The stream is over. Raises `Broken` where it was cut."""
        record, usage = self._record, self._usage
        if not self._finished:
            raise Broken("the stream ended without a last word")
        counted = sum(record.message_tokens)
        record.output_tokens = usage.get("completion_tokens") or counted
        record.counts_told = record.output_tokens == counted
        record.input_tokens = usage.get("prompt_tokens") or record.input_tokens
        record.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        return Answer("".join(self._text))


def _text_of(choice: dict[str, Any]) -> str:
    delta = choice.get("delta")
    if delta is None:
        return choice.get("text") or ""
    return (delta.get("reasoning_content") or delta.get("reasoning") or "") + (delta.get("content") or "")


async def _events(response: ClientResponse) -> AsyncIterator[str]:
    """The data of each server-sent event; each is one line with every server that there is."""
    async for line in response.content:
        if line.startswith(b"data:"):
            yield line[5:].strip().decode(errors="replace")


async def _refuse(response: ClientResponse) -> None:
    said = (await response.text(errors="replace"))[:_SHOWN_CHARACTERS]
    words = f"HTTP {response.status}: {' '.join(said.split())}"
    if response.status in _BUSY:
        raise Refused(words)
    raise Broken(words)
