"""Orders and answers for tests, without tokenizer and schedulers."""

from services.router.answer import Answer
from services.router.checked_request import CheckedRequest
from services.router.order import Order
from services.router.prompt_chain import PromptChain
from services.router.text.answer_text import AnswerUpdate
from services.wire.execution import Sampling
from services.wire.message import int32_column
from services.wire.scheduling import SchedulerHello

HELLO = SchedulerHello(executor_ready=True, block_size=4)


def order(*, index=0, max_tokens=3, resume_ids=None, deadline_at=None, n=1, **sampling) -> Order:
    request = CheckedRequest(
        request_id="mine", sampling=Sampling(**sampling), seed=7, max_tokens=max_tokens, n=n, stop_strings=(),
        include_stop_string=False, skip_special_tokens=True, priority=0, latency_class="", resume_ids=resume_ids,
    )  # fmt: skip
    chain = PromptChain(int32_column([1, 2, 3, 4, 5]), bytes(16), HELLO.block_size)
    return Order(
        request=request, tenant="", index=index, max_tokens=max_tokens, chain=chain, fingerprint="f",
        deadline_at=deadline_at,
    )  # fmt: skip


class FakeText:
    """Each token is its own character; token 0 ends the sequence."""

    def push(self, token_ids) -> AnswerUpdate:
        stop = 0 if 0 in token_ids else None
        accepted = token_ids.index(0) + 1 if stop == 0 else len(token_ids)
        return AnswerUpdate("".join(map(chr, token_ids[:accepted])).rstrip("\0"), accepted, None, stop)

    prime = push

    def finish(self) -> AnswerUpdate:
        return AnswerUpdate()


class FakeFleet:
    """Remembers what it is asked; a sequence is seated at once while there is a link."""

    def __init__(self, link=None) -> None:
        self.link = link
        self.placed = 0
        self.forgotten = 0

    def place(self, answer) -> None:
        self.placed += 1
        if self.link is not None:
            answer.seated(self.link, self.placed)

    def place_elsewhere(self, answer, avoided) -> bool:
        self.placed += 1
        answer.seated(avoided, self.placed)
        return True

    def forget(self, answer) -> None:
        self.forgotten += 1


class FakeLink:
    def __init__(self) -> None:
        self.cancelled = []

    def cancel(self, handle) -> None:
        self.cancelled.append(handle)


def answer(fleet=None, *, changed=lambda: None, **ordered) -> Answer:
    return Answer(order(**ordered), FakeText(), fleet or FakeFleet(), arrived_at=0.0, changed=changed)
