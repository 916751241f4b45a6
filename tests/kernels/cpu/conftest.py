"""The compiled library, in each level that this machine has; where it does not load, these tests say so and are skipped."""

from collections.abc import Iterator

import pytest

from kernels.cpu.library import CpuLibrary, load, why_missing
from kernels.cpu.ops import LEVELS, CpuOps


def levels_here() -> list[str]:
    """Those that this machine and this build have; all of them, to be skipped, where there is no library to ask."""
    if why_missing():
        return list(LEVELS)
    library = load()
    chosen = library.level
    here = []
    for level in LEVELS:
        try:
            library.use_level(level)
        except ValueError:
            continue
        here.append(level)
    library.use_level(chosen)
    return here


@pytest.fixture(autouse=True)
def _needs_the_library() -> None:
    """A module whose tests need none has a fixture of this name that does nothing."""
    if reason := why_missing():
        pytest.skip(f"the compiled CPU kernels cannot be tested: {reason}")


@pytest.fixture(params=levels_here())
def library(request: pytest.FixtureRequest) -> Iterator[CpuLibrary]:
    """The library at one level, with its level and threads put back afterwards."""
    loaded = load()
    level, threads = loaded.level, loaded.threads
    loaded.use_level(request.param)
    yield loaded
    loaded.use_level(level)
    loaded.set_threads(threads)


@pytest.fixture(params=levels_here())
def ops(request: pytest.FixtureRequest) -> CpuOps:
    """Single operations at one level."""
    return CpuOps(request.param)
