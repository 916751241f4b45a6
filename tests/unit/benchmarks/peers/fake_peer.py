"""A peer for tests: its n-th token is n times ten; it refuses 13 tokens and dies of 99. It prints where it must not."""

import sys
import time

from benchmarks.peers.drivers.driving import Engine, Teller, drive
from benchmarks.peers.line import Ask


class Counting(Engine):
    def __init__(self) -> None:
        print("loading the model")  # as libraries do
        if "broken" in sys.argv:
            raise RuntimeError("no such model")
        self._left: dict[int, int] = {}
        self._given: dict[int, int] = {}

    def add(self, ask: Ask) -> None:
        self._left[ask.id] = ask.num_tokens
        self._given[ask.id] = 0

    def step(self, teller: Teller) -> bool:
        if "slow" in sys.argv:
            time.sleep(0.2)
        for request_id, left in list(self._left.items()):
            if left == 99:
                raise RuntimeError("99 tokens are too many")
            if left == 13 and not self._given[request_id]:
                teller.failed(request_id, "13 brings bad luck")
                del self._left[request_id]
                continue
            self._given[request_id] += 1
            self._left[request_id] -= 1
            teller.tokens(request_id, [10 * self._given[request_id]])
            if not self._left[request_id]:
                teller.finished(request_id)
                del self._left[request_id]
        return bool(self._left)


if __name__ == "__main__":
    drive(Counting)
