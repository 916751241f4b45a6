"""Fixtures of the tests that run real processes."""

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.integration.scheduler_harness import Cluster, Router


@pytest.fixture
def cluster():
    """A directory with a short path (sockets), and the processes started in it."""
    directory = Path(tempfile.mkdtemp(prefix="hw-"))
    cluster = Cluster(directory)
    yield cluster
    try:
        cluster.close()
    finally:
        shutil.rmtree(directory)


@pytest.fixture
async def new_router(cluster):
    """Makes attached routers; closes them after the test."""
    routers = []

    async def make(**options):
        router = Router(cluster.address)
        routers.append(router)
        return await router.attach(**options)

    yield make
    for router in routers:
        await router.close()
