"""The compiled library, in each level that this machine has."""

from collections.abc import Iterator

import pytest

from kernels.cpu.library import CpuLibrary, load
from kernels.cpu.ops import LEVELS, CpuOps


def levels_here() -> list[str]:
    """Those that this machine and this build have."""
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
