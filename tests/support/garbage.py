"""Loads and benchmarks that begin without a full collection of garbage, for tests that begin many.

In a run of all tests that looks through all that the others have imported, a third of a second each time.
"""

import gc

import pytest


@pytest.fixture(autouse=True)
def no_full_collections(monkeypatch):
    """Of all tests below the conftest that lends it."""
    monkeypatch.setattr(gc, "collect", lambda: 0)
