"""A policy: small functions that put sequences in order, by what is known of them and of their tenants."""

from collections.abc import Iterable
from typing import ClassVar, Protocol

from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence


class Policy(Protocol):
    """Smaller is sooner. Whoever would be the last to be admitted is the first to give way.

    No queue is ever sorted again: the order within a tenant is fixed when a sequence joins, so ageing is an order by
    moments, and the turn of a tenant only ever moves back while it waits.
    """

    in_one_order: ClassVar[bool]
    """Whether ranks alone say who is before whom, whatever the tenant."""

    def rank(self, sequence: Sequence) -> int:
        """Its place among those of its tenant; fixed when it joins. Equals go in the order of their arrival."""

    def turn(self, sequence: Sequence, rank: int) -> int:
        """Its place among the first of all tenants; it may grow while the tenant waits, and never falls."""

    def price(self, sequence: Sequence) -> int:
        """By how much its admission puts off the turn of its tenant."""

    def hopeless_us(self, sequence: Sequence) -> int:
        """From which moment a newcomer is to be refused if it has not been admitted; -1: never."""

    def may_pass(self, sequence: Sequence, blocked: Sequence) -> bool:
        """Whether one that is next may be admitted before one whose turn came and that does not fit."""

    def join(self, sequence: Sequence, head: Sequence | None, waiting: Iterable[str]) -> None:
        """It is the first of its tenant to wait.

        `head` is the one that is next so far, if any; `waiting` are the tenants of all that wait.
        """

    def admit(self, sequence: Sequence, num_computed: int) -> None:
        """It leaves the queue for a slot, for the first time; so many tokens are to be computed for it at once."""

    def release(self, sequence: Sequence) -> None:
        """It has left its slot, with all its tokens."""

    def settle(self, running: Running) -> None:
        """Somebody is about to be chosen: what the running have been given since the last call is to be counted."""
