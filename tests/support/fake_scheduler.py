"""An in-process Scheduling server for tests of the router: each request is answered by a script.

Its model has one token for each byte (`ids_of`, `END` ends a sequence), and by default it says the alphabet: output
number k is the k-th letter, whatever was accepted before, so that a resumed answer can be told from a repeated one.
"""

import asyncio
import contextlib
import functools
import json
import string
from collections.abc import Awaitable, Callable

import grpc
import grpc.aio
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from services.wire.codec import decode, encode
from services.wire.execution import LogprobRows, ModelCard
from services.wire.message import float32_column, int32_column
from services.wire.scheduling import (
    Bill,
    Cancel,
    CancelByIdRequest,
    CancelByIdResponse,
    ExplainByIdRequest,
    ExplainByIdResponse,
    FinishCause,
    Finished,
    GetModelCardResponse,
    Load,
    Rejected,
    RouterHello,
    SchedulerHello,
    StepTokens,
    Stop,
    Submit,
    ToRouter,
    ToScheduler,
)

END = 0
MODEL = "fake-model"
VOCAB_SIZE = 300
FINGERPRINT = "f00d"
TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@functools.cache
def tokenizer_json() -> str:
    """A byte-level BPE without merges: one token for each byte, and one control token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: 1 + place for place, character in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab={"<end>": END, **vocabulary}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>"])
    return tokenizer.to_str()


@functools.cache
def _tokenizer() -> Tokenizer:
    return Tokenizer.from_str(tokenizer_json())


def ids_of(text: str) -> list[int]:
    return _tokenizer().encode(text, add_special_tokens=False).ids


def letters(start: int, count: int) -> str:
    """What the model says from output number `start` on."""
    return "".join(string.ascii_lowercase[k % 26] for k in range(start, start + count))


def fake_card(**changes) -> ModelCard:
    values = {
        "name": MODEL,
        "fingerprint": FINGERPRINT,
        "numerics_digest": "d1",
        "batch_invariant": True,
        "context_length": 4096,
        "vocab_size": VOCAB_SIZE,
        "eos_ids": int32_column([END]),
        "tokenizer_json": tokenizer_json(),
        "chat_template": TEMPLATE,
        "special_tokens_json": json.dumps({"eos_token": "<end>"}),
        "max_logprobs": 5,
    }
    return ModelCard(**values | changes)


class FakeSession:
    """One Attach stream."""

    def __init__(self, context) -> None:
        self.context = context
        self.live: dict[int, asyncio.Task] = {}
        self.step = 0
        self._outbox = asyncio.Queue()

    async def send(self, body) -> None:
        await self.send_bytes(encode(ToRouter(body=body)))

    async def send_bytes(self, frame: bytes) -> None:
        """Hands over a frame, and lets others run: a script may be cancelled here, a write that has begun may not."""
        self._outbox.put_nowait(frame)
        await asyncio.sleep(0)

    async def write(self) -> None:
        while True:
            await self.context.write(await self._outbox.get())

    def end(self, handle: int) -> None:
        task = self.live.pop(handle, None)  # None: its last word and this crossed on the way
        if task is not None:
            task.cancel()

    async def tokens(self, submit: Submit, ids, **rows) -> None:
        self.step += 1
        body = StepTokens(
            step=self.step,
            handles=int32_column([submit.handle] if len(ids) else []),
            counts=int32_column([len(ids)] if len(ids) else []),
            tokens=int32_column(ids),
            **rows,
        )
        await self.send(body)

    async def finish(self, submit: Submit, cause: FinishCause, **bill) -> None:
        self.live.pop(submit.handle, None)
        bill = Bill(steps=self.step, cached_tokens=3, kv_block_us=2_000_000, executor_us=7_000, **bill)
        await self.send(Finished(handle=submit.handle, cause=cause, bill=bill, queued_us=1500, prefill_us=2500))

    async def reject(self, submit: Submit, reason, **fields) -> None:
        self.live.pop(submit.handle, None)
        await self.send(Rejected(handle=submit.handle, reason=reason, **fields))


Script = Callable[[FakeSession, Submit], Awaitable[None]]


def alphabet(gap_s: float = 0.0, cause: FinishCause = FinishCause.LENGTH) -> Script:
    """Says the alphabet up to max_tokens, one token a step."""

    async def script(session: FakeSession, submit: Submit) -> None:
        for k in range(submit.accepted_count, submit.max_tokens):
            await session.tokens(submit, ids_of(letters(k, 1)))
            await asyncio.sleep(gap_s)
        await session.finish(submit, cause, completion_tokens=submit.max_tokens)

    return script


def says(text: str, *, cause: FinishCause = FinishCause.STOP_TOKEN, at_once: bool = False) -> Script:
    """Says `text`, one token a step or all in one, and ends."""

    async def script(session: FakeSession, submit: Submit) -> None:
        ids = ids_of(text) + ([END] if cause == FinishCause.STOP_TOKEN else [])
        for batch in [ids] if at_once else [[token_id] for token_id in ids]:
            await session.tokens(submit, batch)
        await session.finish(submit, cause)

    return script


def rejects(reason, **fields) -> Script:
    async def script(session: FakeSession, submit: Submit) -> None:
        await session.reject(submit, reason, **fields)

    return script


async def silent(_session: FakeSession, _submit: Submit) -> None:
    """Never answers."""


def logprob_rows(handle: int, rows: list[tuple[int, float, int, list[tuple[int, float]]]]) -> LogprobRows:
    """Columns of (position, logprob, rank, best ones)."""
    top = [pair for _, _, _, pairs in rows for pair in pairs]
    return LogprobRows(
        slots=int32_column([handle] * len(rows)),
        positions=int32_column([row[0] for row in rows]),
        chosen=float32_column([row[1] for row in rows]),
        ranks=int32_column([row[2] for row in rows]),
        top_counts=int32_column([len(row[3]) for row in rows]),
        top_ids=int32_column([token_id for token_id, _ in top]),
        top_logprobs=float32_column([logprob for _, logprob in top]),
    )


class FakeScheduler:
    """Use as an asynchronous context; `stop` and `start` again play a lost and a restarted scheduler."""

    def __init__(self, **limits) -> None:
        self.card = fake_card()
        self.executor_ready = True
        self.limits = {
            "block_size": 16,
            "pool_tokens": 4096,
            "max_request_tokens": 1024,
            "default_max_tokens": 20,
            "max_waiting_requests": 100,
            "max_waiting_tokens": 10_000,
        } | limits
        self.load = Load(total_blocks=100, free_blocks=100)
        self.load_every_s: float | None = 0.05
        self.script: Script = alphabet()
        self.scripts: dict[str, Script] = {}  # by request id
        self.views: dict[str, ExplainByIdResponse] = {}
        self.cancelled_by_id: list[str] = []
        self.submits: list[Submit] = []
        self.stops: list[Stop] = []
        self.cancels: list[Cancel] = []
        self.sessions: list[FakeSession] = []
        self.port = 0
        self._server = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def num_live(self) -> int:
        return sum(len(session.live) for session in self.sessions)

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *_) -> None:
        await self.stop()

    async def start(self) -> None:
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        handlers = {
            "Attach": grpc.stream_stream_rpc_method_handler(self._attach),
            "GetModelCard": grpc.unary_unary_rpc_method_handler(self._get_model_card),
            "Explain": grpc.unary_unary_rpc_method_handler(self._explain),
            "CancelById": grpc.unary_unary_rpc_method_handler(self._cancel_by_id),
        }
        generic = grpc.method_handlers_generic_handler("headway.internal.v1.Scheduling", handlers)
        self._server.add_generic_rpc_handlers((generic,))
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(0)

    async def drop_sessions(self) -> None:
        """Breaks the streams; the server stays."""
        for session in list(self.sessions):
            session.reader.cancel()

    def hello(self) -> SchedulerHello:
        if not self.executor_ready:
            return SchedulerHello(executor_ready=False)
        digests = {"fingerprint": self.card.fingerprint, "numerics_digest": self.card.numerics_digest}
        return SchedulerHello(executor_ready=True, **digests, **self.limits)

    async def say_hello(self) -> None:
        for session in self.sessions:
            await session.send(self.hello())

    async def _attach(self, _requests, context) -> None:
        session = FakeSession(context)
        session.reader = asyncio.ensure_future(self._read(session))
        loads = asyncio.ensure_future(self._send_loads(session))
        writer = asyncio.ensure_future(session.write())
        self.sessions.append(session)
        try:
            await session.send(self.hello())
            with contextlib.suppress(asyncio.CancelledError):
                await session.reader
            await context.abort(grpc.StatusCode.UNAVAILABLE, "dropped")
        finally:
            self.sessions.remove(session)
            for task in (session.reader, loads, writer, *session.live.values()):
                task.cancel()

    async def _read(self, session: FakeSession) -> None:
        while (data := await session.context.read()) is not grpc.aio.EOF:
            match decode(ToScheduler, data).body:
                case RouterHello():
                    pass
                case Submit() as submit:
                    self.submits.append(submit)
                    script = self.scripts.get(submit.request_id, self.script)
                    session.live[submit.handle] = asyncio.ensure_future(script(session, submit))
                case Stop() as stop:
                    self.stops.append(stop)
                    session.end(stop.handle)
                case Cancel() as cancel:
                    self.cancels.append(cancel)
                    session.end(cancel.handle)

    async def _send_loads(self, session: FakeSession) -> None:
        while True:
            if self.load_every_s is not None:
                await session.send(self.load)
            await asyncio.sleep(self.load_every_s or 0.05)

    async def _get_model_card(self, _request, _context) -> bytes:
        return encode(GetModelCardResponse(ready=self.executor_ready, card=self.card if self.executor_ready else None))

    async def _explain(self, request, _context) -> bytes:
        asked = decode(ExplainByIdRequest, request)
        return encode(self.views.get(asked.request_id, ExplainByIdResponse()))

    async def _cancel_by_id(self, request, _context) -> bytes:
        asked = decode(CancelByIdRequest, request)
        self.cancelled_by_id.append(asked.request_id)
        return encode(CancelByIdResponse(cancelled=int(asked.request_id in self.views)))


async def until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Waits until `condition()` holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)
