"""The intake: who may begin a request, and what a request needs before its tokens can be computed."""

import asyncio
import secrets
import time
from collections.abc import Callable

from headway.v1 import inference_pb2 as api

from services.router.answer import Answer
from services.router.checked_request import CheckedRequest
from services.router.fleet import Fleet
from services.router.live_request import LiveRequest
from services.router.order import Order
from services.router.prompt_chain import PromptChain
from services.router.reject_reasons import duplicate_id
from services.router.served_model import ServedModel
from services.router.settings import RouterSettings
from services.router.tenant_salts import TenantSalts
from services.router.validation import (
    check_model,
    check_prompt_size,
    check_request,
    check_request_id,
    check_time_left,
    fit_length,
)
from services.runtime.errors import Refusal, exhausted, unavailable
from services.wire.chain import chain_root

ANONYMOUS = ""  # the only tenant while callers have no keys
_FULL_PAUSE_S = 1.0
_DRAINING_PAUSE_S = 1.0
_LONG_RESUME_TOKENS = 512  # more than this is replayed in a thread


class Intake:
    """Opens and closes live requests; their ids are unique within a tenant."""

    def __init__(self, settings: RouterSettings, fleet: Fleet) -> None:
        """Raises `BadSetting` when the salts' secret cannot be had."""
        self.draining = False
        self._settings = settings
        self._salts = TenantSalts.read(settings.salt_secret_file)
        self._fleet = fleet
        self._live: dict[tuple[str, str], LiveRequest] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def num_live(self) -> int:
        return len(self._live)

    def find(self, tenant: str, request_id: str) -> LiveRequest | None:
        return self._live.get((tenant, request_id))

    def open(
        self, request: api.GenerateRequest, call_time_left_s: float | None, wake: Callable[[], None]
    ) -> LiveRequest:
        """Admits a request and reserves its id, until `close`. Raises `Refusal`."""
        if self.draining:
            raise shutting_down()
        check_request_id(request.request_id, required=False)
        deadline_s = request.deadline_s if request.HasField("deadline_s") else None
        left_s = check_time_left(deadline_s, call_time_left_s)
        key = ANONYMOUS, request.request_id or f"req-{secrets.token_hex(12)}"
        if key in self._live:
            raise duplicate_id()
        if len(self._live) >= self._settings.max_live_requests:
            raise exhausted("too many requests are live; try again later", "TOO_MANY_REQUESTS", _FULL_PAUSE_S)
        now = asyncio.get_running_loop().time()  # for timers; it stands still while the loop works
        live = LiveRequest(
            tenant=key[0],
            request_id=key[1],
            deadline_at=None if left_s is None else now + left_s,
            arrived_at=time.perf_counter(),
            wake=wake,
        )
        self._live[key] = live
        self._idle.clear()
        return live

    async def begin(self, live: LiveRequest, request: api.GenerateRequest) -> None:
        """Checks the request, makes tokens of its prompt and has its answers computed. Raises `Refusal`."""
        async with live.preparing():
            await self._begin(live, request)

    def close(self, live: LiveRequest) -> None:
        live.close()
        if self._live.pop((live.tenant, live.request_id), None) is not None and not self._live:
            self._idle.set()

    async def idle(self) -> None:
        """Returns when no request is live."""
        await self._idle.wait()

    def fail_all(self, refusal: Refusal) -> None:
        for live in list(self._live.values()):
            live.fail(refusal)

    async def _begin(self, live: LiveRequest, request: api.GenerateRequest) -> None:
        model, limits = await self._fleet.model()
        check_model(request.model, [model.card.name])
        check_prompt_size(request, limits)
        checked = check_request(request, model.card, limits, live.request_id)
        token_ids = await model.render(request)
        max_tokens = fit_length(len(token_ids), checked.max_tokens, limits)
        root = chain_root(self._salts.of(live.tenant))
        chain = await PromptChain.of(token_ids, root, limits.block_size)
        answers = self._answers(live, checked, model, chain, max_tokens)
        if checked.resume_ids is not None:
            await _resume(answers[0], checked.resume_ids.tolist())
        if live.refusal is not None:
            raise live.refusal
        started = api.Started(
            request_id=live.request_id, model=model.card.name, fingerprint=model.card.fingerprint, seed=checked.seed
        )
        live.begin(started, answers)

    def _answers(
        self, live: LiveRequest, checked: CheckedRequest, model: ServedModel, chain: PromptChain, max_tokens: int
    ) -> list[Answer]:
        rules = model.text.stop_rules(
            strings=checked.stop_strings,
            token_ids=checked.sampling.stop_ids.tolist(),
            min_tokens=checked.sampling.min_tokens,
            ignore_eos=checked.sampling.ignore_eos,
            include_stop_string=checked.include_stop_string,
        )
        return [
            Answer(
                Order(
                    request=checked,
                    tenant=live.tenant,
                    index=index,
                    max_tokens=max_tokens,
                    chain=chain,
                    fingerprint=model.card.fingerprint,
                    deadline_at=live.deadline_at,
                ),
                model.text.answer(rules, skip_special_tokens=checked.skip_special_tokens),
                self._fleet,
                arrived_at=live.arrived_at,
                changed=live.answer_changed,
            )
            for index in range(checked.n)
        ]


async def _resume(answer: Answer, token_ids: list[int]) -> None:
    if len(token_ids) > _LONG_RESUME_TOKENS:
        await asyncio.to_thread(answer.resume, token_ids)
    else:
        answer.resume(token_ids)


def shutting_down() -> Refusal:
    """What a request hears that comes, or is still live, when the router goes away."""
    message = "this server is shutting down; send the request again, it will reach another"
    return unavailable(message, "SHUTTING_DOWN", _DRAINING_PAUSE_S)
