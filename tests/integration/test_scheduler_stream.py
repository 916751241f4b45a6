"""A scheduler process with a simulated executor process, seen from a router."""

import asyncio
import contextlib
import socket

import grpc
import pytest

from services.executor.simulated_card import simulated_card
from services.runtime.curve import generate_keys, write_keys
from services.wire import codec
from services.wire.execution import Sampling
from services.wire.scheduling import (
    Cancel,
    CancelByIdRequest,
    CancelByIdResponse,
    ExplainByIdRequest,
    ExplainByIdResponse,
    FinishCause,
    Finished,
    GetModelCardRequest,
    GetModelCardResponse,
    RouterHello,
    SequenceState,
    StepRecord,
    Stop,
    WatchRequest,
)
from tests.integration.scheduler_harness import (
    SERVICE,
    WAIT_S,
    Router,
    health,
    new_cluster,
    random_answer,
    routers_of,
    submit,
    until_health,
)

NUM_BLOCKS = 4000


@pytest.fixture(scope="module")
def shared():
    """A scheduler and its executor, for all tests that leave them as they were."""
    with new_cluster() as cluster:
        cluster.start_scheduler()
        cluster.start_executor(simulated_num_blocks=NUM_BLOCKS)
        yield cluster


@pytest.fixture
async def new_guest(shared):
    """Makes routers that are attached to the shared scheduler."""
    async with routers_of(shared) as make:
        yield make


async def _ask(channel, method, request, answer):
    data = await channel.unary_unary(f"/{SERVICE}/{method}")(codec.encode(request), timeout=WAIT_S)
    return codec.decode(answer, data)


async def test_tokens_of_many_streams_come_exactly(new_guest):
    """Two routers with several sequences each get every token of theirs once, in order, then one last word."""
    routers = [await new_guest(), await new_guest()]
    for router in routers:
        await router.ready()
        for handle in range(1, 6):
            prompt = b"prompt %d " % handle * 8
            await router.send(submit(handle, prompt=prompt, seed=handle * 7, max_tokens=30 + handle))
    for router in routers:
        await router.until(lambda router=router: len(router.ends) == 5)
        for handle in range(1, 6):
            prompt = b"prompt %d " % handle * 8
            assert router.tokens[handle] == random_answer(prompt, handle * 7, 30 + handle)
            end = router.ends[handle]
            assert (type(end), end.cause) == (Finished, FinishCause.LENGTH)
            assert end.bill.completion_tokens == 30 + handle


async def test_hello_card_and_load(new_guest):
    """The hello speaks of the executor's model, the card is that model's, and Load comes unasked."""
    router = await new_guest()
    await router.ready()
    card = simulated_card("random", 8192)
    hello = router.hellos[-1]
    assert (hello.fingerprint, hello.numerics_digest) == (card.fingerprint, card.numerics_digest)
    assert (hello.block_size, hello.pool_tokens) == (16, NUM_BLOCKS * 16)
    answer = await _ask(router.channel, "GetModelCard", GetModelCardRequest(), GetModelCardResponse)
    assert (answer.ready, answer.card) == (True, card)
    await router.until(lambda: len(router.loads) >= 3)
    assert router.loads[-1].total_blocks == NUM_BLOCKS
    assert router.loads[-1].making_progress


async def test_without_an_executor_there_is_life_but_no_readiness(cluster, new_router):
    """Liveness answers, readiness says no, the hello says that no executor is there, and there is no card."""
    cluster.start_scheduler()
    router = await new_router()
    assert router.hellos[0].executor_ready is False
    assert await health(router.channel, "liveness")
    assert not await health(router.channel)
    answer = await _ask(router.channel, "GetModelCard", GetModelCardRequest(), GetModelCardResponse)
    assert (answer.ready, answer.card) == (False, None)
    cluster.start_executor()
    await router.ready()
    await until_health(router.channel, wanted=True)


async def test_explain_and_cancel_by_id(new_guest):
    """A live request is explained and cancelled by its id; afterwards nobody knows it."""
    router = await new_guest()
    await router.ready()
    await router.send(submit(1, max_tokens=5000, tenant="t", request_id="r1"))
    await router.until(lambda: len(router.tokens[1]) > 3)
    explained = await _ask(
        router.channel, "Explain", ExplainByIdRequest(tenant="t", request_id="r1"), ExplainByIdResponse
    )
    assert [view.state for view in explained.sequences] == [SequenceState.DECODING]
    request = CancelByIdRequest(tenant="t", request_id="r1")
    assert (await _ask(router.channel, "CancelById", request, CancelByIdResponse)).cancelled == 1
    await router.until(lambda: 1 in router.ends)
    assert router.ends[1].cause is FinishCause.CANCELLED
    assert (await _ask(router.channel, "CancelById", request, CancelByIdResponse)).cancelled == 0


async def test_stop_and_cancel(new_guest):
    """A router's Stop and Cancel end its sequences with their causes."""
    router = await new_guest()
    await router.ready()
    await router.send(submit(1, max_tokens=5000))
    await router.send(submit(2, max_tokens=5000))
    await router.until(lambda: router.tokens[1] and router.tokens[2])
    await router.send(Stop(handle=1, accepted_count=1))
    await router.send(Cancel(handle=2))
    await router.until(lambda: len(router.ends) == 2)
    assert router.ends[1].cause is FinishCause.STOPPED
    assert router.ends[2].cause is FinishCause.CANCELLED


async def test_a_router_that_goes_cancels_its_sequences_alone(new_guest):
    """When one stream ends, its slots become free and the other router's tokens go on."""
    gone, stays = await new_guest(), await new_guest()
    await stays.ready()
    await gone.send(submit(1, max_tokens=5000))
    await stays.send(submit(1, max_tokens=400, seed=3))
    await gone.until(lambda: gone.tokens[1])
    await stays.until(lambda: stays.loads and stays.loads[-1].running == 2)
    await gone.close()
    await stays.until(lambda: stays.loads[-1].running == 1)
    await stays.until(lambda: 1 in stays.ends)
    assert stays.tokens[1] == random_answer(b"hello", 3, 400)


async def test_bad_streams_end_in_words_and_harm_nobody(new_guest):
    """Garbage, a stream that begins wrong, another protocol and a broken promise each end that stream alone."""
    healthy = await new_guest()
    await healthy.ready()
    await healthy.send(submit(1, max_tokens=800, seed=5))

    async def garbage(router):
        await router.send_bytes(b"\xff\xfe garbage")

    async def empty(router):
        await router.send_bytes(b"")

    async def second_hello(router):
        await router.send(RouterHello())

    async def handle_twice(router):
        await router.send(submit(9, max_tokens=5000))
        await router.send(submit(9, max_tokens=5000))

    for misbehave in (garbage, empty, second_hello, handle_twice):
        router = await new_guest()
        await misbehave(router)
        code, details = await router.status()
        assert (misbehave.__name__, code) == (misbehave.__name__, grpc.StatusCode.INVALID_ARGUMENT)
        assert details
    wrong_start = await new_guest(hello=submit(1))
    assert (await wrong_start.status())[0] is grpc.StatusCode.INVALID_ARGUMENT
    wrong_protocol = await new_guest(hello=RouterHello(protocol=99))
    code, details = await wrong_protocol.status()
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "99" in details
    await healthy.until(lambda: 1 in healthy.ends)
    assert healthy.tokens[1] == random_answer(b"hello", 5, 800)


async def test_a_router_that_does_not_read_is_closed_and_nobody_waits_for_it(cluster, new_router):
    """A backlog over its bound closes that stream and frees its sequences; no token is silently left out before."""
    # Some 500 steps: a Load tells that they run before they are ended, even where the writer hardly gets to write.
    cluster.start_scheduler(router_backlog_bytes=2_000_000)
    cluster.start_executor(simulated_step_fixed_us=100, simulated_step_per_token_us=0)
    watching = await new_router()
    await watching.ready()
    slow = Router(cluster.address)
    call = slow.channel.stream_stream(f"/{SERVICE}/Attach")()
    slow._call = call
    await slow.send(RouterHello())
    wordy = Sampling(temperature=0.0, ignore_eos=True, logprobs=20)
    for handle in range(1, 30):
        await slow.send(submit(handle, max_tokens=5000, sampling=wordy))
    await watching.until(lambda: watching.loads and watching.loads[-1].running > 10)
    await watching.until(lambda: watching.loads[-1].running == 0)
    await watching.send(submit(1, seed=4, max_tokens=50))
    await watching.until(lambda: 1 in watching.ends)
    assert watching.tokens[1] == random_answer(b"hello", 4, 50)
    assert "does not read" in cluster.log(cluster.processes[0])
    await slow.close()


async def test_watch_shows_steps_at_the_asked_rate(new_guest):
    """A watcher sees newer and newer records, no faster than it asked; a second one does not disturb it."""
    router = await new_guest()
    await router.ready()
    await router.send(submit(1, max_tokens=3000))
    watch = router.channel.unary_stream(f"/{SERVICE}/Watch")
    slow = watch(codec.encode(WatchRequest(max_records_per_second=5)))
    fast = watch(codec.encode(WatchRequest(max_records_per_second=1000)))
    loop = asyncio.get_running_loop()
    started = loop.time()
    records = [codec.decode(StepRecord, await slow.read()) for _ in range(4)]
    assert loop.time() - started >= 0.55
    steps = [record.step for record in records]
    assert steps == sorted(set(steps))
    assert steps[-1] - steps[0] > 6, "records in between are left out"
    assert records[-1].running == 1
    faster = [codec.decode(StepRecord, await fast.read()).step for _ in range(10)]
    assert faster == sorted(set(faster))
    slow.cancel()
    fast.cancel()


async def test_over_tcp_with_keys(cluster, new_router):
    """Scheduler and executor that share a key file meet over tcp; an executor with other keys is not heard."""
    keys, other_keys = cluster.directory / "keys", cluster.directory / "other"
    write_keys(keys, generate_keys())
    write_keys(other_keys, generate_keys())
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        endpoint = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    cluster.start_scheduler(executor_endpoint=endpoint, curve_key_file=keys)
    cluster.start_executor(scheduler_endpoint=endpoint, curve_key_file=other_keys)
    router = await new_router()
    await asyncio.sleep(1.5)
    assert not router.hellos[-1].executor_ready
    cluster.start_executor(scheduler_endpoint=endpoint, curve_key_file=keys)
    await router.ready()
    await router.send(submit(1))
    await router.until(lambda: 1 in router.ends)
    assert router.tokens[1] == random_answer(b"hello", 1, 20)
