"""Hypothesis looks for a sequence of events that breaks the core."""

from typing import get_args

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from services.scheduler.answers import Answer
from services.scheduler.core.settings import CoreSettings, PolicyName
from services.scheduler.driver import Driver
from services.wire.event_log import SessionClosed, SessionOpened, Tick
from services.wire.execution import Sampling
from tests.simulation.strict_engine import EOS, FAILING, POISON, StrictEngine, expected_tokens

TOKENS = st.sampled_from([1, 2, 3, POISON - 1])


class CoreMachine(RuleBasedStateMachine):
    """Few blocks, few slots, a strict engine; each step is let through by a rule of its own."""

    @initialize(
        budget=st.sampled_from([1, 3, 16, 40]),
        slots=st.integers(1, 4),
        blocks=st.integers(3, 9),
        depth=st.integers(1, 2),
        grace_us=st.sampled_from([0, 3000]),
        batching=st.sampled_from(["continuous", "static"]),
        policy=st.sampled_from(get_args(PolicyName)),
    )
    def start(
        self, budget: int, slots: int, blocks: int, *, depth: int, grace_us: int, batching: str, policy: str
    ) -> None:
        self.driver = Driver(
            CoreSettings(
                token_budget=budget,
                max_slots=slots,
                pipeline_depth=depth,
                executor_grace_us=grace_us,
                max_waiting_requests=4,
                default_max_tokens=20,
                batching=batching,
                policy=policy,
            ),
            StrictEngine(num_blocks=blocks, context_length=120),
            check_integrity=True,
            restart_us=2000,
        )
        self.driver.start()
        self.answers: list[Answer] = []
        self.routers = [1]
        self.num_routers = 1

    @precondition(lambda self: self.routers)
    @rule(
        prompt=st.lists(TOKENS, min_size=1, max_size=40),
        max_tokens=st.sampled_from([-1, 1, 5, 30]),
        time_left_us=st.sampled_from([-1, -1, 4500]),
        data=st.data(),
    )
    def submit(self, prompt: list[int], max_tokens: int, time_left_us: int, data: st.DataObject) -> None:
        if trouble := data.draw(st.sampled_from([0] * 8 + [POISON, FAILING])):
            prompt[0] = trouble
        self.answers.append(
            self.driver.submit(
                prompt,
                max_tokens=max_tokens,
                time_left_us=time_left_us,
                attempt=data.draw(st.sampled_from([0, 0, 2])),
                router=data.draw(st.sampled_from(self.routers)),
                tenant=data.draw(st.sampled_from("ab")),
                priority=data.draw(st.sampled_from([0, 4])),
                latency_class=data.draw(st.sampled_from(["", "chat", "batch"])),
                seed=data.draw(st.integers(0, 2)),
                sampling=Sampling(ignore_eos=data.draw(st.booleans())),
            )
        )

    def live(self) -> list[Answer]:
        return [answer for answer in self.answers if not answer.has_ended and answer.router in self.routers]

    @precondition(lambda self: self.live())
    @rule(data=st.data(), how=st.sampled_from(["cancel", "stop", "preempt"]))
    def disturb(self, data: st.DataObject, how: str) -> None:
        answer = data.draw(st.sampled_from(self.live()))
        if how == "stop":
            self.driver.stop(answer, len(answer.token_ids))
        else:
            getattr(self.driver, how)(answer)

    @rule(steps=st.integers(0, 6))
    def run(self, steps: int) -> None:
        self.driver.run(self.driver.now_us + steps * 1000)

    @rule()
    def tick(self) -> None:
        self.driver.tell(Tick())

    @rule()
    def toggle_executor(self) -> None:
        if self.driver.has_executor:
            self.driver.lose_executor()
        else:
            self.driver.executor_up()

    @rule()
    def open_router(self) -> None:
        self.num_routers += 1
        self.driver.tell(SessionOpened(router=self.num_routers))
        self.routers.append(self.num_routers)

    @precondition(lambda self: len(self.routers) > 1)
    @rule(data=st.data())
    def close_router(self, data: st.DataObject) -> None:
        router = data.draw(st.sampled_from(self.routers))
        self.routers.remove(router)
        self.driver.tell(SessionClosed(router=router))

    @invariant()
    def balances(self) -> None:
        if hasattr(self, "driver"):
            self.driver.core.check_integrity()

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        if not self.driver.has_executor:
            self.driver.executor_up()
        self.driver.run()
        assert self.driver.core.is_idle
        for answer in self.answers:
            if answer.router in self.routers:
                assert answer.has_ended, "a request never ended"
                prompt, got = answer.submit.token_ids.tolist(), answer.token_ids
                assert got == expected_tokens(prompt, len(got), answer.submit.seed, Sampling(ignore_eos=True))
                assert answer.submit.sampling.ignore_eos or EOS not in got[:-1]


CoreMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestCoreMachine = CoreMachine.TestCase


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_many_more_sequences_of_events_do_not_break_the_core():
    """The same, forty times as long: rare meetings of events, such as one leaving while its neighbour fails."""
    run_state_machine_as_test(CoreMachine, settings=settings(max_examples=2500, stateful_step_count=60))
