"""An exchange: one streamed request over as many calls as its answer takes.

No I/O: `headway._client.stream` makes the calls, for threads and for asyncio.
"""

from headway._client.answer import Delta
from headway._client.attempts import Attempts
from headway._client.errors import HeadwayError, ServerFault
from headway.v1 import inference_pb2 as v1


class Exchange:
    """What was received so far, what to send next, and whether there is a next."""

    def __init__(self, request: v1.GenerateRequest, attempts: Attempts) -> None:
        self._request = request
        self._unfinished = set(range(request.n if request.HasField("n") else 1))
        self._token_ids = list(request.resume.token_ids)
        self.attempts = attempts
        self.started: v1.Started | None = None
        self.texts: dict[int, str] = {}

    def request(self) -> v1.GenerateRequest:
        """The request of the next call: whole at first, later what continues the answer."""
        if self.started is None:
            return self._request
        request = v1.GenerateRequest()
        request.CopyFrom(self._request)
        if self._token_ids:
            seed, fingerprint = self.started.seed, self.started.fingerprint
            request.resume.CopyFrom(v1.Resume(token_ids=self._token_ids, seed=seed, fingerprint=fingerprint))
            request.output.ClearField("prompt_logprobs")  # they came before the first token
        else:
            request.sampling.seed = self.started.seed
        return request

    def take(self, response: v1.GenerateResponse) -> Delta | None:
        """What `response` adds, if anything."""
        if self.started is None and response.HasField("started"):
            self.started = response.started
        has_delta, finished = response.HasField("delta"), response.finished if response.HasField("finished") else None
        if not has_delta and finished is None:
            return None
        delta = response.delta
        index = delta.index if has_delta else response.finished.index
        token_ids = tuple(delta.token_ids)
        if token_ids:
            self._token_ids += token_ids
            self.attempts.progressed()
        self.texts[index] = self.texts.get(index, "") + delta.text
        if finished is not None:
            self._unfinished.discard(index)
        return Delta(
            text=delta.text,
            token_ids=token_ids,
            index=index,
            logprobs=tuple(delta.logprobs),
            prompt_logprobs=tuple(delta.prompt_logprobs),
            finished=finished,
        )

    def ended(self) -> None:
        """The call has ended with the status OK. Raises `ServerFault` where the answer has not."""
        if self._unfinished:
            raise ServerFault("the stream ended without a last word")

    def broken(self, error: HeadwayError) -> float | None:
        """The call has ended with `error`: the pause before the next one, None where only the status was lost.

        Raises `error` where the answer cannot be continued.
        """
        if not self._unfinished:
            return None
        if self._token_ids and self._request.n > 1:
            raise error  # only a single answer can be resumed
        return self.attempts.pause_s(error)
