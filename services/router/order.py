"""An order: what a scheduler is to compute for one answer. It does not change while the answer grows."""

import asyncio
import dataclasses
from collections.abc import Sequence

from services.router.checked_request import CheckedRequest
from services.router.prompt_chain import PromptChain
from services.router.retries import Retries
from services.router.seeds import answer_seed
from services.wire.scheduling import SchedulerHello, Submit


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Answer `index` of the n of `request`; `fingerprint` is that of the model which its prompt was tokenized for."""

    request: CheckedRequest
    tenant: str
    index: int
    max_tokens: int
    chain: PromptChain
    fingerprint: str
    deadline_at: float | None  # on the event loop's clock

    @property
    def wants_prompt_logprobs(self) -> bool:
        """Of several answers to one prompt the first alone tells them."""
        return self.request.sampling.prompt_logprobs >= 0 and self.index == 0

    def submission(
        self,
        handle: int,
        hello: SchedulerHello,
        accepted: Sequence[int],
        retries: Retries,
        *,
        prompt_logprobs: bool,
    ) -> Submit:
        """All that a scheduler needs to compute what follows `accepted`."""
        request = self.request
        token_ids, hashes = self.chain.extended(accepted, hello.block_size)
        sampling = request.sampling if prompt_logprobs else dataclasses.replace(request.sampling, prompt_logprobs=-1)
        return Submit(
            handle=handle,
            tenant=self.tenant,
            request_id=request.request_id,
            answer_index=self.index,
            token_ids=token_ids,
            prompt_length=len(self.chain),
            accepted_count=len(accepted),
            chain_root=self.chain.root,
            block_hashes=hashes,
            seed=answer_seed(request.seed, self.index, request.n),
            sampling=sampling,
            max_tokens=self.max_tokens,
            priority=request.priority,
            latency_class=request.latency_class,
            time_left_us=self._time_left_us(),
            attempt=retries.attempt,
            resubmitted=retries.resubmitted,
        )

    def _time_left_us(self) -> int:
        """-1 without a deadline."""
        if self.deadline_at is None:
            return -1
        return max(int((self.deadline_at - asyncio.get_running_loop().time()) * 1e6), 0)
