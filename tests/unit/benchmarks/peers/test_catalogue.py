"""The catalogue: every peer gets the same number of compute threads."""

from benchmarks.peers import catalogue
from benchmarks.peers.catalogue import HEADWAY, THREADS, Place
from services.executor.settings import ExecutorSettings
from services.runtime.settings import load


def test_headway_computes_with_as_many_threads_as_the_others(tmp_path, monkeypatch):
    """On a machine of many CPUs too, where its executor would take them all."""
    monkeypatch.setattr(catalogue, "ensure_default_model", lambda: None)
    launch = HEADWAY.prepare(Place(tmp_path))
    for name, value in launch.env.items():
        monkeypatch.setenv(name, value)
    assert load(ExecutorSettings, "executor").settings.threads == THREADS
