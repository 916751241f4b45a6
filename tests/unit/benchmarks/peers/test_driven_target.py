"""A peer in a process of its own, through the line protocol and the driver's real loop."""

import asyncio

import pytest

from benchmarks.peers.launch import launched
from benchmarks.peers.plan import trials
from services.cli.bench.load import Load
from services.cli.bench.result import Record
from services.cli.bench.target import Answer, Broken, Clock, Exchange
from services.cli.bench.workload import Request
from tests.unit.benchmarks.peers.fake_launch import fake_launch


def request(num_tokens, index=0):
    return Request(index=index, prompt=b"\x00\x01\x02", output_tokens=num_tokens)


def record():
    return Record(index=0, intended_s=0.0, sent_s=0.0)


async def test_tokens_come_with_the_peers_own_times(tmp_path):
    """As many as asked for, in order, each with its time; what is printed meanwhile does no harm."""
    async with launched(fake_launch(), tmp_path / "log") as live:
        told, clock = record(), Clock()
        answer = await live.target.send(request(3), (), told, clock)
        assert answer.token_ids == [10, 20, 30]
        assert told.message_tokens == [1, 1, 1]
        assert told.message_s == sorted(told.message_s)
        assert 0 <= told.message_s[0] <= told.message_s[-1] <= clock.now_s()
        assert (told.input_tokens, told.output_tokens) == (3, 3)
    assert "loading the model" in (tmp_path / "log").read_text()


async def test_a_conversation_carries_what_was_said(tmp_path):
    """The prompt of a second turn is the first prompt, its answer and what is new."""
    async with launched(fake_launch(), tmp_path / "log") as live:
        told = record()
        before = [Exchange(request(2), Answer(token_ids=[10, 20]))]
        await live.target.send(request(1), before, told, Clock())
        assert told.input_tokens == 3 + 2 + 3


async def test_many_requests_share_the_pipe(tmp_path):
    """Each gets its own tokens, also when one of them fails."""
    async with launched(fake_launch(), tmp_path / "log") as live:
        answers = await asyncio.gather(
            *(live.target.send(request(count), (), record(), Clock()) for count in (5, 13, 2)), return_exceptions=True
        )
    assert answers[0].token_ids == [10, 20, 30, 40, 50]
    assert isinstance(answers[1], Broken)
    assert "bad luck" in str(answers[1])
    assert answers[2].token_ids == [10, 20]


async def test_a_peer_that_dies_fails_its_requests(tmp_path):
    """Those under way and those that come later, at once: nobody waits for an answer that cannot come."""
    async with asyncio.timeout(30), launched(fake_launch(), tmp_path / "log") as live:
        with pytest.raises(Broken, match="has ended"):
            await live.target.send(request(99), (), record(), Clock())
        with pytest.raises(Broken, match="has ended"):
            await live.target.send(request(1), (), record(), Clock())


async def test_a_request_that_is_given_up_leaves_the_others_alone(tmp_path):
    """The ruler's own limit ends the wait; what the peer still says of it goes nowhere."""
    async with launched(fake_launch("slow"), tmp_path / "log") as live:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await live.target.send(request(2), (), record(), Clock())
        answer = await live.target.send(request(2), (), record(), Clock())
    assert answer.token_ids == [10, 20]


async def test_the_load_generator_takes_it_for_a_target(tmp_path):
    """The same ruler that measures servers."""
    (trial,) = trials(["W5"], quick=True)
    async with launched(fake_launch(), tmp_path / "log") as live:
        run = await Load(trial.workload(0), live.target, timeout_s=30, tell=lambda _: None).run()
    assert [each.status for each in run.records] == ["ok"] * 4
    assert {each.output_tokens for each in run.records} == {8}
