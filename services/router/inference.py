"""The servicer of headway.v1.Inference."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
from headway.v1 import inference_pb2 as api

from services.router.call_places import CallPlaces
from services.router.fleet import Fleet
from services.router.generate_many import ManyCall
from services.router.intake import ANONYMOUS, Intake
from services.router.live_request import LiveRequest
from services.router.rpc import Border, Call, answering, served
from services.router.sampling_checks import check_token_count
from services.router.settings import RouterSettings
from services.router.validation import check_model, check_prompt_size, check_request_id
from services.runtime.errors import Refusal, not_found
from services.wire.scheduling import SequenceView

SERVICE = "headway.v1.Inference"


class Inference:
    """All methods of the public contract."""

    def __init__(self, settings: RouterSettings, fleet: Fleet, intake: Intake) -> None:
        self._settings = settings
        self._fleet = fleet
        self._intake = intake

    def handlers(self, border: Border) -> grpc.GenericRpcHandler:
        """What the gRPC server serves."""
        settings = self._settings
        live, many = CallPlaces(settings.max_live_requests), CallPlaces(settings.max_many_calls)
        short = CallPlaces(settings.max_short_calls)
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Generate": served(self.generate, border, live),
                "Complete": served(self.complete, border, live),
                "GenerateMany": served(self.generate_many, border, many),
                "Tokenize": served(answering(api.TokenizeRequest, self.tokenize), border, short),
                "Detokenize": served(answering(api.DetokenizeRequest, self.detokenize), border, short),
                "GetModel": served(answering(api.GetModelRequest, self.get_model), border, short),
                "Explain": served(answering(api.ExplainRequest, self.explain), border, short),
                "Abort": served(answering(api.AbortRequest, self.abort), border, short),
            },
        )

    async def generate(self, call: Call) -> None:
        changed = asyncio.Event()
        async with self._begun(call, changed) as live:
            while not live.ended or live.has_pending:
                await changed.wait()
                changed.clear()
                for response in live.take():
                    await call.write(response)
            if live.refusal is not None:
                raise live.refusal

    async def complete(self, call: Call) -> None:
        changed = asyncio.Event()
        async with self._begun(call, changed) as live:
            while not live.ended:
                await changed.wait()
                changed.clear()
            if live.refusal is not None:
                raise live.refusal
            await call.write(_completion(live))

    async def generate_many(self, call: Call) -> None:
        await ManyCall(self._intake, call, self._settings.max_requests_per_call).run()

    async def tokenize(self, request: api.TokenizeRequest) -> api.TokenizeResponse:
        model, limits = await self._fleet.model()
        check_model(request.model, [model.card.name])
        check_prompt_size(request, limits)
        return api.TokenizeResponse(token_ids=(await model.render(request)).tolist())

    async def detokenize(self, request: api.DetokenizeRequest) -> api.DetokenizeResponse:
        model, limits = await self._fleet.model()
        check_model(request.model, [model.card.name])
        check_token_count("token_ids", request.token_ids, limits.max_request_tokens)
        return api.DetokenizeResponse(text=await model.detokenize(request))

    async def get_model(self, request: api.GetModelRequest) -> api.GetModelResponse:
        model, limits = await self._fleet.model()
        card = model.card
        check_model(request.model, [card.name])
        return api.GetModelResponse(
            name=card.name,
            served_models=[card.name],
            fingerprint=card.fingerprint,
            numerics_digest=card.numerics_digest,
            batch_invariant=card.batch_invariant,
            limits=limits.to_proto(),
            eos_token_ids=card.eos_ids.tolist(),
            has_chat_template=model.text.has_chat_template,
        )

    async def explain(self, request: api.ExplainRequest) -> api.ExplainResponse:
        check_request_id(request.request_id, required=True)
        live = self._intake.find(ANONYMOUS, request.request_id)
        answers = _waiting_here(live) if live is not None else []
        indices = {answer.index for answer in answers}
        if live is None or len(indices) < max(len(live.answers), 1):
            views = await self._fleet.explain(ANONYMOUS, request.request_id)
            answers += [_explained(view) for view in views if view.answer_index not in indices]
        if live is None and not answers:
            raise _unknown_request()
        answers.sort(key=lambda answer: answer.index)
        return api.ExplainResponse(request_id=request.request_id, answers=answers)

    async def abort(self, request: api.AbortRequest) -> api.AbortResponse:
        check_request_id(request.request_id, required=True)
        live = self._intake.find(ANONYMOUS, request.request_id)
        if live is not None:
            live.abort()
        elif not await self._fleet.cancel_by_id(ANONYMOUS, request.request_id):
            raise _unknown_request()
        return api.AbortResponse()

    @asynccontextmanager
    async def _begun(self, call: Call, changed: asyncio.Event) -> AsyncIterator[LiveRequest]:
        """The call's request, computed while the context lasts."""
        request = await call.request(api.GenerateRequest)
        live = self._intake.open(request, call.time_left_s, changed.set)
        try:
            await self._intake.begin(live, request)
            del request  # it may be large, the answer long, and needs none of it
            yield live
        finally:
            self._intake.close(live)


def _completion(live: LiveRequest) -> api.CompleteResponse:
    response = api.CompleteResponse(started=live.started)
    for answer in live.answers:
        delta = answer.pending.take()
        response.answers.add(
            index=answer.index,
            text=delta.text,
            token_ids=delta.token_ids,
            logprobs=delta.logprobs,
            finished=answer.finished,
        )
        response.prompt_logprobs.extend(delta.prompt_logprobs)
    return response


def _waiting_here(live: LiveRequest) -> list[api.ExplainResponse.Answer]:
    """The answers that no scheduler knows of: the request is being prepared, or waits for a scheduler."""
    if not live.answers:
        return [_waiting(0, 0)]
    return [_waiting(answer.index, answer.num_accepted) for answer in live.answers if answer.waits_for_scheduler]


def _waiting(index: int, num_accepted: int) -> api.ExplainResponse.Answer:
    return api.ExplainResponse.Answer(
        index=index,
        state=api.REQUEST_STATE_WAITING,
        waiting_for="executor",
        completion_tokens=num_accepted,
    )


def _explained(view: SequenceView) -> api.ExplainResponse.Answer:
    return api.ExplainResponse.Answer(
        index=view.answer_index,
        state=api.RequestState.Name(api.RequestState.ValueType(view.state)),
        queue_position=view.queue_position,
        blocks_held=view.blocks_held,
        blocks_needed=view.blocks_needed,
        blocks_free=view.blocks_free,
        waiting_for=view.waiting_for,
        computed_tokens=view.computed_tokens,
        completion_tokens=view.completion_tokens,
        estimated_start_s=view.estimated_start_us / 1e6 if view.estimated_start_us >= 0 else None,
    )


def _unknown_request() -> Refusal:
    return not_found("request_id: none of your live requests has this id; it may have ended", "REQUEST_UNKNOWN")
