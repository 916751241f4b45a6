"""transformers with static batches: sixteen waiting requests are padded, generated to the end of the longest, let go."""

import sys
from collections import deque

import torch
from transformers import StoppingCriteria, StoppingCriteriaList

from benchmarks.peers.drivers import transformers_model
from benchmarks.peers.drivers.driving import Engine, Teller, drive
from benchmarks.peers.line import Ask

BATCH_SIZE = 16


class Watch(StoppingCriteria):
    """Tells each token when it is there, and says of each row whether its request has all that it asked for."""

    def __init__(self, asks: list[Ask], prompt_length: int, teller: Teller) -> None:
        self._asks = asks
        self._prompt_length = prompt_length
        self._teller = teller

    def __call__(self, input_ids: torch.Tensor, _scores: torch.Tensor, **_: object) -> torch.Tensor:
        count = input_ids.shape[1] - self._prompt_length
        for ask, token_id in zip(self._asks, input_ids[:, -1].tolist(), strict=True):
            if count <= ask.num_tokens:
                self._teller.tokens(ask.id, [token_id])
            if count == ask.num_tokens:
                self._teller.finished(ask.id)
        self._teller.tell()
        return torch.tensor([count >= ask.num_tokens for ask in self._asks])


class StaticBatches(Engine):
    """Who comes while a batch runs waits for its end. A step is a batch."""

    def __init__(self, folder: str, threads: int) -> None:
        self._model = transformers_model.load(folder, threads)
        self._waiting: deque[Ask] = deque()

    def add(self, ask: Ask) -> None:
        self._waiting.append(ask)

    def step(self, teller: Teller) -> bool:
        asks = [self._waiting.popleft() for _ in range(min(BATCH_SIZE, len(self._waiting)))]
        longest = max(len(ask.prompt) for ask in asks)
        padding = [longest - len(ask.prompt) for ask in asks]
        ids = torch.tensor([[0] * pad + ask.prompt for pad, ask in zip(padding, asks, strict=True)])
        mask = torch.tensor([[0] * pad + [1] * (longest - pad) for pad in padding])
        watch = Watch(asks, longest, teller)
        with torch.inference_mode():
            self._model.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=max(ask.num_tokens for ask in asks),
                stopping_criteria=StoppingCriteriaList([watch]),
            )
        return bool(self._waiting)


if __name__ == "__main__":
    drive(lambda: StaticBatches(sys.argv[1], int(sys.argv[2])))
