"""transformers with its own continuous batching: a manager that generates in a thread."""

import sys

from transformers import ContinuousBatchingConfig
from transformers.generation.continuous_batching.requests import GenerationOutput

from benchmarks.peers.drivers import transformers_model
from benchmarks.peers.drivers.driving import Engine, Teller, drive
from benchmarks.peers.line import Ask

POLL_S = 0.02
PAGE_TOKENS = 32
NUM_PAGES = 1024  # times PAGE_TOKENS: room for 32k tokens
BATCH_TOKENS = 512
MAX_REQUESTS = 64


class Manager(Engine):
    """The manager streams; a step takes what it has streamed."""

    def __init__(self, folder: str, threads: int) -> None:
        model = transformers_model.load(folder, threads)
        config = ContinuousBatchingConfig(
            page_size=PAGE_TOKENS,
            num_blocks=NUM_PAGES,
            max_batch_tokens=BATCH_TOKENS,
            max_requests_per_batch=MAX_REQUESTS,
        )
        self._manager = model.init_continuous_batching(continuous_batching_config=config)
        self._manager.start()
        self._live: dict[str, int] = {}  # tokens told of each request

    def add(self, ask: Ask) -> None:
        request_id = self._manager.add_request(
            ask.prompt, request_id=str(ask.id), max_new_tokens=ask.num_tokens, streaming=True
        )
        if request_id is None:
            raise RuntimeError("the manager takes no more requests: its thread has failed")
        self._live[request_id] = 0

    def step(self, teller: Teller) -> bool:
        output = self._manager.get_result(timeout=POLL_S)
        while output is not None:
            self._take(output, teller)
            output = None if self._manager.output_router.output_queue.empty() else self._manager.get_result()
        if self._live and not self._manager.is_running():
            raise RuntimeError("the manager's thread has ended")
        return bool(self._live)

    def _take(self, output: GenerationOutput, teller: Teller) -> None:
        request_id, told = int(output.request_id), self._live[output.request_id]
        token_ids = list(output.generated_tokens)  # all there are so far
        teller.tokens(request_id, token_ids[told:])
        self._live[output.request_id] = len(token_ids)
        if output.error is not None:
            teller.failed(request_id, output.error)
        elif output.is_finished():
            teller.finished(request_id)
        if output.is_finished():
            del self._live[output.request_id]


if __name__ == "__main__":
    drive(lambda: Manager(sys.argv[1], int(sys.argv[2])))
