"""Small makers that the core's tests share."""

from typing import Any

from services.scheduler.core.core import Core
from services.scheduler.core.quota import Quotas
from services.scheduler.core.sequence import Sequence
from services.scheduler.core.session import Session
from services.scheduler.core.settings import CoreSettings
from services.wire.event_log import Event, ExecutorUp, LogEvent, RoutedSubmit, SessionOpened
from services.wire.execution import GREEDY, Capacity, KvGroup, ModelCard, StepPlan, StepResult
from services.wire.message import int32_column
from services.wire.scheduling import Finished, Rejected, Submit, ToRouter

ROOT = bytes(16)


def capacity(
    *, num_blocks: int = 64, max_slots: int = 64, max_step_tokens: int = 4096, context_length: int = 2048, **card: Any
) -> Capacity:
    fields = {"name": "m", "fingerprint": "f", "numerics_digest": "d", "batch_invariant": True, "vocab_size": 100}
    return Capacity(
        groups=(KvGroup(num_blocks=num_blocks, block_size=16, bytes_per_token=1),),
        max_slots=max_slots,
        max_step_tokens=max_step_tokens,
        card=ModelCard(context_length=context_length, **{**fields, **card}),
    )


def submit(handle: int = 1, prompt: int | list[int] = 20, accepted: list[int] | None = None, **fields: Any) -> Submit:
    """`prompt`: its tokens, or how many of them, which then depend on the handle."""
    tokens = [(handle * 7 + position) % 100 for position in range(prompt)] if isinstance(prompt, int) else prompt
    accepted = accepted or []
    return Submit(
        handle=handle,
        token_ids=int32_column([*tokens, *accepted]),
        prompt_length=len(tokens),
        accepted_count=len(accepted),
        **{"request_id": f"r{handle}", "chain_root": ROOT, "sampling": GREEDY, "max_tokens": 8, **fields},
    )


def sequence(serial: int = 1, *, limit: int = 0, **fields: Any) -> Sequence:
    message = submit(serial, **fields)
    made = Sequence(serial=serial, router=1, submit=message, arrived_us=0, fingerprint="f")
    made.limit = limit or message.prompt_length + max(message.max_tokens, 0)
    return made


def session(**fields: Any) -> Session:
    return Session(1, capacity(**fields), CoreSettings(), Quotas())


class Bench:
    """A core with a router (1) and, unless told otherwise, an executor that draws token 50 for every slot."""

    def __init__(self, *, up: Capacity | bool = True, **settings: Any) -> None:
        self.core = Core(CoreSettings(**settings))
        self.at_us = 0
        self.outputs: list[tuple[int, ToRouter]] = []
        self.plans: list[StepPlan] = []
        self.tell(SessionOpened(router=1))
        if up:
            self.tell(ExecutorUp(session=1, capacity=capacity() if up is True else up))
        self.core.take_outputs()

    def tell(self, body: Event) -> None:
        self.core.handle(LogEvent(at_us=self.at_us, body=body))

    def submit(self, *args: Any, router: int = 1, **fields: Any) -> Submit:
        message = submit(*args, **fields)
        self.tell(RoutedSubmit(router=router, submit=message))
        return message

    def plan(self) -> StepPlan | None:
        planned = self.core.plan(self.at_us)
        if planned is None:
            return None
        self.plans.append(planned[0])
        return planned[0]

    def answer(self, plan: StepPlan, slots: list[int], **fields: Any) -> None:
        self.tell(
            StepResult(
                plan=plan.plan,
                **{
                    "slots": int32_column(slots),
                    "counts": int32_column([1] * len(slots)),
                    "tokens": int32_column([50] * len(slots)),
                    "step_us": 1000,
                    **fields,
                },
            )
        )

    def step(self, slots: list[int], **fields: Any) -> StepPlan:
        """One plan and its answer, a millisecond later."""
        plan = self.plan()
        assert plan is not None
        self.at_us += 1000
        self.answer(plan, slots, **fields)
        self.core.check_integrity()
        return plan

    def said(self) -> list[Any]:
        """What routers were told since the last call."""
        return [message.body for _, message in self.core.take_outputs()]

    def last_word(self) -> Finished | Rejected:
        """The one last word since the last call."""
        (word,) = [body for body in self.said() if isinstance(body, Finished | Rejected)]
        return word
