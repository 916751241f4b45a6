"""Fixtures of the tests that run real processes."""

import pytest

from tests.integration.scheduler_harness import new_cluster, routers_of


@pytest.fixture
def cluster():
    """Processes of this test's own."""
    with new_cluster() as cluster:
        yield cluster


@pytest.fixture
async def new_router(cluster):
    """Makes routers that are attached to the test's own scheduler."""
    async with routers_of(cluster) as make:
        yield make
