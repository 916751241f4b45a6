"""What every test of the benchmarks shares: loads that begin at once."""

from tests.support.garbage import no_full_collections

__all__ = ["no_full_collections"]
