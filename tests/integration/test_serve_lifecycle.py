"""`headway serve --fake`, as a user has it: three real processes, begun, harmed and ended."""

import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from headway.client import Client, RetryPolicy, Unavailable

from services.cli.health import READINESS, status_of
from tests.support.served import command, is_alive, serve, wait_until

NAMES = {"router", "scheduler", "executor"}
LIVENESS = "liveness"
NOT_SERVING_S = 1.0  # five times the promise
PROMISE_S = 30.0  # a bound far above what any step here takes


@pytest.fixture(autouse=True)
def own_run_dir(monkeypatch):
    """Run directories of these tests do not meet those of a real server."""
    with tempfile.TemporaryDirectory(prefix="hw-", dir="/tmp") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield Path(runtime)


def run_dirs(runtime):
    return list((runtime / f"headway-{os.getuid()}").glob("run-*"))


def test_it_starts_three_processes_serves_and_ends_with_0(tmp_path, own_run_dir):
    """Ready is said with the facts and a line to try, a request is answered, SIGTERM ends all three with exit code 0."""
    with serve(tmp_path) as served:
        children = served.children()
        assert set(children) == NAMES
        said = served.said()
        for words in ("ready", "sequences of 2,048", served.address, "generate"):
            assert words in said
        assert status_of(served.address, READINESS, 2) == "SERVING"
        with Client(served.address) as client:
            completion = client.complete([{"role": "user", "content": "hello there"}], max_tokens=8)
        assert completion.finished.usage.completion_tokens == len(completion.token_ids) > 0
        assert served.end() == 0
        assert not any(is_alive(pid) for pid in children.values())
    assert run_dirs(own_run_dir) == []


def test_sigterm_lets_a_live_stream_finish(tmp_path):
    """After SIGTERM the server is not ready at once but lives, takes no request, ends the live stream whole, exits with 0."""
    slow = {"HEADWAY_EXECUTOR_SIMULATED_STEP_FIXED_US": "20000"}
    once = RetryPolicy(max_attempts=1)
    with serve(tmp_path, environment=slow) as served, Client(served.address, retry=once) as client:
        stream = client.generate("hello", max_tokens=150, ignore_eos=True)
        tokens = list(next(stream).token_ids)
        served.process.send_signal(signal.SIGTERM)
        wait_until(lambda: status_of(served.address, READINESS, 1) == "NOT_SERVING", NOT_SERVING_S)
        assert status_of(served.address, LIVENESS, 1) == "SERVING"
        with pytest.raises(Unavailable):
            client.complete("too late", max_tokens=1, timeout_s=5)
        for delta in stream:
            tokens += delta.token_ids
        assert len(tokens) == 150
        assert served.process.wait(PROMISE_S) == 0


def test_a_second_sigterm_ends_at_once(tmp_path):
    """A drain that takes too long for its operator is cut short: no process is left, the exit code is not 0."""
    slow = {"HEADWAY_EXECUTOR_SIMULATED_STEP_FIXED_US": "1000000"}
    with serve(tmp_path, environment=slow) as served, Client(served.address) as client:
        stream = client.generate("hello", max_tokens=200, ignore_eos=True)
        next(stream)
        children = served.children()
        served.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "ending" in served.said(), PROMISE_S)
        time.sleep(0.6)  # sooner, it would be taken for the same request
        assert served.process.poll() is None
        assert served.end() == 143
        assert not any(is_alive(pid) for pid in children.values())
        stream.cancel()


def test_it_starts_again_whatever_became_of_the_last_one(tmp_path, own_run_dir):
    """On one port, in a row: after kill -9 of the supervisor (no orphan), after SIGTERM, after kill -9 of everything."""
    with serve(tmp_path) as served:
        children = served.children()
        port = int(served.address.rpartition(":")[2])
        served.end(signal.SIGKILL)
        wait_until(lambda: not any(is_alive(pid) for pid in children.values()), PROMISE_S)
        assert len(run_dirs(own_run_dir)) == 1
    with serve(tmp_path, port=port) as served:
        assert len(run_dirs(own_run_dir)) == 1  # the dead one's is gone
        assert served.end() == 0
    with serve(tmp_path, port=port) as served:
        for pid in (served.pid, *served.children().values()):
            os.kill(pid, signal.SIGKILL)
        served.process.wait()
    with serve(tmp_path, port=port) as served, Client(served.address) as client:
        assert served.address == f"127.0.0.1:{port}"
        assert client.complete("hi", max_tokens=2).token_ids
        assert served.end() == 0


def test_a_port_in_use_is_told_with_what_to_do():
    """Exit code 2 and the reason, not a server that nobody can reach."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            command("--fake", "--port", str(port)), capture_output=True, text=True, check=False, timeout=60
        )
    assert done.returncode == 2
    assert f"port {port} of 127.0.0.1 is in use" in done.stderr
    assert "--port" in done.stderr


def test_a_setting_that_a_process_refuses_ends_the_start_with_2():
    """A value that only the process itself can judge still ends `serve` with 2, at once."""
    done = subprocess.run(
        command("--fake", "--port", "0"),
        env={**os.environ, "HEADWAY_EXECUTOR_CURVE_KEY_FILE": "/does/not/exist"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "the executor cannot start with these settings" in done.stderr


def test_a_client_of_a_server_that_has_ended_hears_unavailable(tmp_path):
    """Nothing hangs on a server that is gone."""
    with serve(tmp_path) as served:
        assert served.end() == 0
        with Client(served.address) as client, pytest.raises(Unavailable):
            client.model(timeout_s=1)


@pytest.mark.model
def test_the_default_model_is_served(tmp_path):
    """Without a flag the default model is fetched where it is not here, its numbers are told, and it answers."""
    with serve(tmp_path, fake=False) as served:
        said = served.said()
        assert "96.6 MB as stored, compiled kernels" in said
        assert "23,040 bytes per token" in said
        assert "fits 11 sequences of 2,048" in said
        with Client(served.address) as client:
            question = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
            completion = client.complete(question, max_tokens=8, temperature=0.0)
        assert "Paris" in completion.text
        assert served.end() == 0
