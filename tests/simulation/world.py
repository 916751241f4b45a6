"""A world: random settings, a strict engine and random events from one seed; everything that must hold is checked."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, get_args

from services.scheduler.answers import Answer
from services.scheduler.core.settings import CoreSettings, PolicyName
from services.scheduler.driver import Driver, Recorder
from services.scheduler.recorder import Recorder as FileRecorder
from services.wire.codec import encode
from services.wire.event_log import LogEvent, SessionClosed, SessionOpened
from services.wire.execution import Sampling, StepPlan
from services.wire.message import int32_column
from services.wire.scheduling import CancelByIdRequest, FinishCause, RejectReason, ToRouter
from tests.simulation.strict_engine import FAILING, POISON, VOCAB_SIZE, StrictEngine, expected_tokens

STEP_US = 1000


@dataclass
class Digest:
    """A recorder that keeps one hash of all plans and messages, and counts events."""

    file: FileRecorder | None = None
    num_events: int = 0
    causes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._hash = blake2b(digest_size=16)

    def event(self, event: LogEvent) -> None:
        self.num_events += 1
        if self.file:
            self.file.event(event)

    def plan(self, at_us: int, plan: StepPlan | None, outputs: list[tuple[int, ToRouter]]) -> None:
        self._hash.update(encode(plan) if plan else b"-")
        for router, message in outputs:
            self._hash.update(router.to_bytes(4, "little") + encode(message))
        if self.file:
            self.file.plan(at_us, plan, outputs)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


class World:
    """One episode. `recorded`: where to write its event log; forced preemptions, which no log holds, are left out then."""

    def __init__(self, seed: int, *, recorded: Path | None = None) -> None:
        self.random = rng = random.Random(seed)
        self.seed = seed
        self.settings = CoreSettings(
            max_slots=rng.choice((1, 2, 5, 16, 16, 40)),
            token_budget=rng.choice((1, 7, 15, 16, 17, 64, 256)),
            max_waiting_requests=rng.choice((3, 40, 1000)),
            max_waiting_tokens=rng.choice((1000, 5000, 1_000_000)),
            default_max_tokens=rng.choice((5, 120)),
            executor_grace_us=rng.choice((0, 20, 2000, 10_000)) * STEP_US,
            pipeline_depth=rng.choice((1, 2)),
            prefix_cache=rng.random() < 0.8,
            tbt_target_us=rng.choice((0, STEP_US // 2, 2 * STEP_US)),
            pass_blocked_us=rng.choice((0, 20, 1000)) * STEP_US,
            default_latency_class=rng.choice(("", "", "chat")),
            policy=rng.choice(get_args(PolicyName)),
            priority_ageing_us=rng.choice((0, 5, 1000)) * STEP_US,
            batching=rng.choice(("continuous", "continuous", "static")),
        )
        self.engine = StrictEngine(
            num_blocks=rng.choice((8, 16, 40, 80)), step_us=STEP_US, context_length=rng.choice((80, 400, 400))
        )
        self._file = recorded.open("wb") if recorded else None
        self.digest = Digest(FileRecorder(self._file, self.settings) if self._file else None)
        recorder: Recorder = self.digest
        self.driver = Driver(
            self.settings,
            self.engine,
            recorder=recorder,
            check_integrity=True,
            restart_us=rng.choice((1, 30)) * STEP_US,
        )
        self.answers: list[Answer] = []
        self.routers: set[int] = set()
        self.closed: set[int] = set()
        self.prefixes = [self.tokens(rng.randrange(1, 70)) for _ in range(3)]
        self.prompt_length = rng.choice((3, 3, 20, 60))
        self.max_tokens = rng.choice((40, 150))
        self.harm = rng.choice((0, 0.3, 3))
        self.outages = rng.choice((0, 0, 0.3, 3))

    def run(self, num_events: int) -> str:
        """Random events, then rest; returns the hash of all plans and messages."""
        try:
            self.open_router()
            while self.digest.num_events < num_events:
                self.act()
                self.driver.run(self.driver.now_us + self.random.choice((0, 1, 3, 10, 30)) * STEP_US)
                self.check_moving()
            self.settle()
            self.check()
        except BaseException:
            print(f"\nworld seed {self.seed}: {self.settings}, {self.engine.num_blocks} blocks")
            raise
        finally:
            if self._file:
                self._file.close()
        return self.digest.hexdigest()

    def act(self) -> None:
        harm = self.harm
        acts: list[tuple[Callable[[], None], float]] = [
            (self.submit, 20),
            (self.burst, 10),
            (self.cancel, 2 * harm),
            (self.stop, 2 * harm),
            (self.cancel_by_id, 0.5 * harm),
            (self.toggle_executor, self.outages if self.driver.has_executor else 4),
            (self.preempt, harm if self._file is None else 0),
            (self.open_router, 0.5),
            (self.close_router, 0.2 * harm),
        ]
        (act,) = self.random.choices([act for act, _ in acts], [weight for _, weight in acts])
        act()

    # ---- what happens

    def tokens(self, count: int) -> list[int]:
        return [self.random.randrange(1, POISON) for _ in range(count)]

    def burst(self) -> None:
        for _ in range(self.random.randrange(2, 9)):
            self.submit()

    def submit(self) -> None:
        rng = self.random
        if not self.routers:
            return
        prompt = self.prompt()
        wants_prompt_rows = rng.random() < 0.05
        max_tokens = rng.choice((-1, 1, 2, 10, self.max_tokens, self.max_tokens, 0 if wants_prompt_rows else 5))
        seed, sampling = rng.randrange(100), self.sampling(wants_prompt_rows=wants_prompt_rows)
        accepted: list[int] = []
        if rng.random() < 0.1 and max_tokens > 0 and prompt[0] < POISON:
            answer = expected_tokens(prompt, max_tokens, seed, sampling)
            accepted = answer[: rng.randrange(0, len(answer) + 1)]
        self.answers.append(
            self.driver.submit(
                prompt,
                accepted=accepted,
                resubmitted=bool(accepted),
                sampling=sampling,
                max_tokens=max_tokens,
                seed=seed,
                router=rng.choice(sorted(self.routers)),
                **self.standing(),
            )
        )

    def prompt(self) -> list[int]:
        rng = self.random
        beginning = rng.choice(self.prefixes) if rng.random() < 0.4 else []
        prompt = beginning + self.tokens(1 + rng.randrange(self.prompt_length))
        if rng.random() < 0.01:
            prompt[0] = rng.choice((POISON, FAILING, VOCAB_SIZE))
        return prompt

    def sampling(self, *, wants_prompt_rows: bool) -> Sampling:
        rng = self.random
        return Sampling(
            logprobs=rng.choice((-1, -1, 2)),
            prompt_logprobs=1 if wants_prompt_rows else -1,
            ignore_eos=rng.random() < 0.9,
            stop_ids=int32_column([7] if rng.random() < 0.2 else []),
        )

    def standing(self) -> dict[str, Any]:
        """Whose it is, what was promised, and what is held against it."""
        rng = self.random
        return {
            "tenant": rng.choice("abc"),
            "latency_class": rng.choice(("", "chat", "document", "batch")),
            "tenant_weight": rng.choice((0.5, 1.0, 3.0)),
            "priority": rng.choice((0, 0, -3, 7, 1000)),
            "request_id": f"r{rng.randrange(30)}" if rng.random() < 0.2 else f"u{len(self.answers)}",
            "time_left_us": rng.choice((-1, -1, -1, 0, 5, 50)) * STEP_US if rng.random() < 0.3 else -1,
            "tenant_max_requests": rng.choice((0, 0, 6)),
            "tenant_max_blocks": rng.choice((0, 0, 9)),
            "attempt": rng.choice((0, 0, 0, 0, 0, 0, 0, 1, 2, 3)) if rng.random() < 0.2 else 0,
        }

    def live(self) -> Answer | None:
        live = [answer for answer in self.answers[-60:] if not answer.has_ended and answer.router in self.routers]
        return self.random.choice(live) if live else None

    def cancel(self) -> None:
        if answer := self.live():
            self.driver.cancel(answer)

    def stop(self) -> None:
        if answer := self.live():
            count = answer.submit.accepted_count + len(answer.token_ids)
            self.driver.stop(answer, self.random.randrange(count + 1))

    def preempt(self) -> None:
        if answer := self.live():
            self.driver.preempt(answer)

    def cancel_by_id(self) -> None:
        if answer := self.live():
            self.driver.tell(CancelByIdRequest(tenant=answer.submit.tenant, request_id=answer.submit.request_id))

    def toggle_executor(self) -> None:
        """Lost for a while, or replaced at once."""
        if not self.driver.has_executor:
            self.driver.executor_up()
        elif self.random.random() < 0.5:
            self.driver.lose_executor()
        else:
            self.driver.executor_up()

    def open_router(self) -> None:
        router = len(self.routers) + len(self.closed) + 1
        self.driver.tell(SessionOpened(router=router))
        self.routers.add(router)

    def close_router(self) -> None:
        if len(self.routers) > 1:
            router = self.random.choice(sorted(self.routers))
            self.driver.tell(SessionClosed(router=router))
            self.routers.remove(router)
            self.closed.add(router)

    # ---- what must hold

    def check_moving(self) -> None:
        """With an executor and nothing under way there is nothing to do."""
        session = self.driver.core._lifecycle.session
        if session and not session.flights and not self.driver.is_engine_dead:
            assert self.driver.core.plan(self.driver.now_us) is None
            assert self.driver.core.is_idle, "the core has stalled"

    def settle(self) -> None:
        if not self.driver.has_executor:
            self.driver.executor_up()
        self.driver.run()

    def check(self) -> None:
        core = self.driver.core
        core.check_integrity()
        load = core.load(self.driver.now_us)
        assert core.is_idle
        assert (load.running, load.waiting, load.waiting_tokens) == (0, 0, 0)
        assert load.free_blocks + load.cached_blocks == load.total_blocks == self.engine.num_blocks, "a block leaked"
        for answer in self.answers:
            if answer.router not in self.closed:
                assert answer.has_ended, "a request never ended"
                self.check_answer(answer)

    def check_answer(self, answer: Answer) -> None:
        submit = answer.submit
        prompt = submit.token_ids[: submit.prompt_length].tolist()
        got = submit.token_ids[submit.prompt_length :].tolist() + answer.token_ids
        most = len(got) if submit.max_tokens < 0 else submit.max_tokens
        want = expected_tokens(prompt, max(most, len(got)), submit.seed, submit.sampling)
        assert got == want[: len(got)], "other tokens than an undisturbed run"
        if answer.rejected:
            self.digest.causes[answer.rejected.reason.name] += 1
            self.check_rejected(answer)
            return
        assert answer.finished
        self.digest.causes[answer.finished.cause.name] += 1
        if submit.max_tokens >= 0 and answer.finished.cause in (FinishCause.LENGTH, FinishCause.STOP_TOKEN):
            assert got == want, "the answer is incomplete"
        if answer.finished.cause is not FinishCause.STOPPED:
            assert answer.finished.bill.completion_tokens == len(answer.token_ids)
        self.check_rows(answer)

    def check_rejected(self, answer: Answer) -> None:
        assert answer.rejected
        reason, submit = answer.rejected.reason, answer.submit
        if reason is RejectReason.DEADLINE:
            assert answer.ended_us - answer.submitted_us <= max(submit.time_left_us, 0)
        if reason in (RejectReason.QUEUE_FULL, RejectReason.QUOTA, RejectReason.DRAINING):
            assert not answer.token_ids
        if reason is RejectReason.FAILED:
            assert submit.token_ids[0] == FAILING
        if reason is RejectReason.POISONOUS:
            assert answer.rejected.attempt >= 3

    def check_rows(self, answer: Answer) -> None:
        """Each token that was delivered has its row, each prompt position at most one."""
        submit, handle = answer.submit, answer.submit.handle
        first = len(submit.token_ids)
        drawn: list[int] = []
        prompt: list[int] = []
        for batch in answer.batches:
            for rows, into in ((batch.logprobs, drawn), (batch.prompt_logprobs, prompt)):
                if rows:
                    into.extend(rows.positions[rows.slots == handle].tolist())
                    assert (rows.positions == rows.top_ids).all()
        if submit.sampling.logprobs >= 0:
            assert drawn == list(range(first, first + len(answer.token_ids)))
        if submit.sampling.prompt_logprobs >= 0 and not submit.accepted_count and answer.token_ids:
            assert prompt == list(range(1, submit.prompt_length)), "a prompt's logprobs are sent once and completely"
