"""One Attach stream of the fake scheduler."""

import asyncio

from services.wire.codec import encode
from services.wire.message import int32_column
from services.wire.scheduling import Bill, FinishCause, Finished, Rejected, StepTokens, Submit, ToRouter


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
