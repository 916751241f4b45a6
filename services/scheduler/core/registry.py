"""The registry: the live sequences, found by handle and by request id."""

from collections.abc import Iterator

from services.scheduler.core.sequence import Sequence
from services.wire.scheduling import Submit


class Registry:
    """Routers and the sequences that each has handed in; `enter` and `leave` are paired."""

    def __init__(self) -> None:
        self._by_handle: dict[int, dict[int, Sequence]] = {}
        self._by_id: dict[tuple[str, str], dict[int, Sequence]] = {}
        self._num_live = 0

    def __len__(self) -> int:
        return self._num_live

    def __iter__(self) -> Iterator[Sequence]:
        for sequences in self._by_handle.values():
            yield from sequences.values()

    @property
    def routers(self) -> list[int]:
        return list(self._by_handle)

    def has_router(self, router: int) -> bool:
        return router in self._by_handle

    def open(self, router: int) -> None:
        self._by_handle[router] = {}

    def close(self, router: int) -> None:
        """All its sequences have left."""
        assert not self._by_handle[router]
        del self._by_handle[router]

    def of_router(self, router: int) -> list[Sequence]:
        return list(self._by_handle[router].values())

    def of_request(self, tenant: str, request_id: str) -> list[Sequence]:
        sequences = self._by_id.get((tenant, request_id), {})
        return [sequences[answer] for answer in sorted(sequences)]

    def find(self, router: int, handle: int) -> Sequence | None:
        return self._by_handle[router].get(handle)

    def is_duplicate(self, submit: Submit) -> bool:
        """Whether an answer of this name lives already."""
        return submit.answer_index in self._by_id.get((submit.tenant, submit.request_id), {})

    def enter(self, sequence: Sequence) -> None:
        tenant, request_id, answer = sequence.identity
        self._by_handle[sequence.router][sequence.submit.handle] = sequence
        self._by_id.setdefault((tenant, request_id), {})[answer] = sequence
        self._num_live += 1

    def leave(self, sequence: Sequence) -> None:
        tenant, request_id, answer = sequence.identity
        del self._by_handle[sequence.router][sequence.submit.handle]
        del self._by_id[tenant, request_id][answer]
        if not self._by_id[tenant, request_id]:
            del self._by_id[tenant, request_id]
        self._num_live -= 1
