"""Failures that are not the sender's, as the sender hears of them: a scheduler's, a full router's, a fault of ours."""

import asyncio

import grpc
import pytest

from services.wire.scheduling import RejectReason
from tests.support.fake_model import letters
from tests.support.fake_scheduler import until
from tests.support.router import bench, request
from tests.support.scripts import alphabet, rejects, silent

INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (RejectReason.QUEUE_FULL, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (RejectReason.QUOTA, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (RejectReason.NEVER_FITS, INVALID),
        (RejectReason.INVALID, INVALID),
        (RejectReason.GRAMMAR, INVALID),
        (RejectReason.DUPLICATE_ID, grpc.StatusCode.ALREADY_EXISTS),
        (RejectReason.DEADLINE, grpc.StatusCode.DEADLINE_EXCEEDED),
        (RejectReason.EXECUTOR_UNAVAILABLE, grpc.StatusCode.UNAVAILABLE),
        (RejectReason.DRAINING, grpc.StatusCode.UNAVAILABLE),
        (RejectReason.MODEL_CHANGED, grpc.StatusCode.UNAVAILABLE),
        (RejectReason.POISONOUS, grpc.StatusCode.INTERNAL),
        (RejectReason.FAILED, grpc.StatusCode.INTERNAL),
        (RejectReason.UNSPECIFIED, grpc.StatusCode.INTERNAL),
    ],
)
async def test_each_reject_reason_has_its_status(reason, code):
    """A scheduler's rejection reaches the client with its status, field and time to come back."""
    async with bench() as made:
        made.scheduler.script = rejects(reason, field="stop.max_tokens", retry_after_us=1_500_000)
        failure = await made.client.refused(request())
        assert failure.code == code
        assert failure.field == ("stop.max_tokens" if code == INVALID else "")
        if code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE):
            assert failure.retry_after_s == 1.5


async def test_too_many_live_requests_are_refused_with_a_delay():
    """At the router's own bound a request is refused with a time to come back, and health still answers."""
    async with bench(max_live_requests=2) as made:
        made.scheduler.script = silent
        calls = [made.client.stub.Generate(request()) for _ in range(2)]
        await until(lambda: made.scheduler.num_live == 2)
        failure = await made.client.refused(request())
        assert (failure.code, failure.retry_after_s) == (grpc.StatusCode.RESOURCE_EXHAUSTED, 1.0)
        for call in calls:
            call.cancel()


async def test_a_refused_call_stays_retryable():
    """A refusal comes without initial metadata, so that gRPC's own retries still may send the call again."""
    async with bench() as made:
        answers = iter([rejects(RejectReason.DRAINING), rejects(RejectReason.DRAINING), alphabet()])

        async def script(session, submit):
            await next(answers)(session, submit)

        made.scheduler.script = script
        retries = (
            '{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.01s", '
            '"maxBackoff": "0.1s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}'
        )
        options = [("grpc.service_config", retries)]
        async with grpc.aio.insecure_channel(made.server.address, options=options) as channel:
            call = channel.unary_stream("/headway.v1.Inference/Generate")(request(max_tokens=2).SerializeToString())
            assert await call.read() is not grpc.aio.EOF
        assert len(made.scheduler.submits) == 3


async def test_a_fault_in_a_handler_is_internal_and_says_nothing(monkeypatch):
    """A bug of ours ends the call INTERNAL in neutral words; the next call is served."""
    async with bench() as made:

        def broken(*_):
            raise KeyError("/secret/path")

        monkeypatch.setattr("services.router.intake.check_prompt_size", broken)
        failure = await made.client.refused(request())
        assert (failure.code, failure.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL_ERROR")
        assert "secret" not in failure.message
        monkeypatch.undo()
        assert (await made.client.generate(request(max_tokens=1))).text == "a"


async def test_a_fault_in_one_sequence_spares_the_others(monkeypatch):
    """A bug in the handling of one sequence's tokens ends it INTERNAL; the link and its other sequences go on."""
    async with bench() as made:
        made.scheduler.scripts["healthy"] = alphabet(gap_s=0.01)
        healthy = asyncio.ensure_future(made.client.generate(request(request_id="healthy", max_tokens=50)))

        async def script(session, submit):
            await session.tokens(submit, [299])  # no such token in the tokenizer
            await session.finish(submit, 2)

        made.scheduler.script = script

        def broken(self, _finished):
            if self._request.request_id != "healthy":
                raise ZeroDivisionError
            raise AssertionError("not before the healthy one ends")

        with monkeypatch.context() as patch:
            patch.setattr("services.router.answer.Answer.take_finished", broken)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await made.client.generate(request())
        assert caught.value.code() == grpc.StatusCode.INTERNAL
        assert (await healthy).text == letters(0, 50)
