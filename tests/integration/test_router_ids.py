"""Requests by their ids: a live one is nobody else's, can be asked about, and can be ended."""

import asyncio

import grpc
import pytest
from headway.v1 import inference_pb2 as api

from services.wire.scheduling import ExplainByIdResponse, SequenceState, SequenceView
from tests.support.fake_model import ids_of
from tests.support.fake_scheduler import until
from tests.support.router import bench, failure_of, request
from tests.support.scripts import silent


async def test_a_live_request_id_cannot_be_taken_twice():
    """A second request with a live id is refused; once the first has ended the id is free."""
    async with bench() as made:
        made.scheduler.scripts["mine"] = silent
        call = made.client.stub.Generate(request(request_id="mine"))
        await until(lambda: made.scheduler.num_live == 1)
        failure = await made.client.refused(request(request_id="mine"))
        assert (failure.code, failure.reason) == (grpc.StatusCode.ALREADY_EXISTS, "DUPLICATE_REQUEST_ID")
        call.cancel()
        await until(lambda: made.server.intake.num_live == 0)
        made.scheduler.scripts.clear()
        assert (await made.client.generate(request(request_id="mine", max_tokens=1))).text == "a"


async def test_abort_and_explain_of_an_unknown_id():
    """An id that is nobody's is NOT_FOUND; one that came through another router is asked of the schedulers."""
    async with bench() as made:
        for method, kind in (
            (made.client.stub.Abort, api.AbortRequest),
            (made.client.stub.Explain, api.ExplainRequest),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await method(kind(request_id="nobody"))
            assert (caught.value.code(), failure_of(caught.value).reason) == (
                grpc.StatusCode.NOT_FOUND,
                "REQUEST_UNKNOWN",
            )
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await method(kind(request_id=""))
            assert failure_of(caught.value).field == "request_id"
        view = SequenceView(
            answer_index=1, state=SequenceState.WAITING, queue_position=4, waiting_for="kv_blocks",
            estimated_start_us=2_500_000,
        )  # fmt: skip
        made.scheduler.views["elsewhere"] = ExplainByIdResponse(sequences=(view,))
        explained = await made.client.stub.Explain(api.ExplainRequest(request_id="elsewhere"))
        answer = explained.answers[0]
        assert (answer.index, answer.state, answer.queue_position) == (1, api.REQUEST_STATE_WAITING, 4)
        assert (answer.waiting_for, answer.estimated_start_s) == ("kv_blocks", 2.5)
        await made.client.stub.Abort(api.AbortRequest(request_id="elsewhere"))
        assert made.scheduler.cancelled_by_id == ["nobody", "elsewhere"]


async def test_abort_ends_a_stream_with_what_it_has():
    """Abort ends a live answer with the reason ABORTED and the tokens so far, and the scheduler is told."""
    async with bench() as made:

        async def script(session, submit):
            await session.tokens(submit, ids_of("ab"))

        made.scheduler.script = script
        stream = asyncio.ensure_future(made.client.generate(request(request_id="mine")))
        await until(lambda: made.server.intake.find("", "mine"))
        await until(lambda: [answer.num_accepted for answer in made.server.intake.find("", "mine").answers] == [2])
        await made.client.stub.Abort(api.AbortRequest(request_id="mine"))
        heard = await stream
        assert heard.text == "ab"
        assert heard.finished.reason == api.FINISH_REASON_ABORTED
        await until(lambda: made.scheduler.cancels)
