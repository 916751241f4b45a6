"""The handle on an executor's process, shown on real ones."""

import os
import select
import subprocess
import sys

import pytest

from services.runtime.lifecycle import pid_namespace
from services.scheduler.process_handle import ProcessHandle


@pytest.fixture
def child():
    with started("serve", "executor", "--flag") as process:
        yield process
        process.kill()


def started(*words):
    """A process that waits, with these words at the end of its command line."""
    process = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process.stdout.readline()  # it has a command line only once it has been executed
    return process


def test_a_death_is_seen_through_the_descriptor(child):
    """The descriptor becomes readable when the process ends, however it ends."""
    handle = ProcessHandle(child.pid, pid_namespace())
    assert not handle.has_ended()
    child.kill()
    poll = select.poll()
    poll.register(handle.fd, select.POLLIN)
    assert poll.poll(10_000)
    assert handle.has_ended()
    handle.close()


def test_kill_kills_it_once_and_never_another(child):
    """The process dies by SIGKILL; killing what has ended already does nothing."""
    handle = ProcessHandle(child.pid, pid_namespace())
    assert handle.kill()
    assert child.wait(10) == -9
    assert handle.kill()
    handle.close()
    assert handle.kill() is False


@pytest.mark.parametrize("namespace", [0, pid_namespace() + 1])
def test_a_pid_of_another_namespace_means_nothing_here(child, namespace):
    """Without the same pid namespace there is no handle, and nobody is killed."""
    handle = ProcessHandle(child.pid, namespace)
    assert (handle.fd, handle.has_ended(), handle.kill()) == (None, False, False)
    assert child.poll() is None


@pytest.mark.parametrize("pid", [-1, 0, 1, os.getpid(), os.getppid()])
def test_no_handle_on_those_who_cannot_be_an_executor(pid):
    """A peer cannot make the scheduler kill init, its parent or itself."""
    assert ProcessHandle(pid, pid_namespace()).fd is None


def test_a_process_that_is_gone_already_has_no_handle(child):
    """A pid that means nobody any more is no error."""
    child.kill()
    child.wait()
    assert ProcessHandle(child.pid, pid_namespace()).fd is None


@pytest.mark.parametrize(
    "words", [(), ("serve", "router"), ("executor",), ("executor", "serve"), ("serve", "router", "executor")]
)
def test_a_process_that_is_no_executor_is_not_killed(words):
    """A peer that names the pid of any other process of our user gets no handle on it at all."""
    with started(*words) as process:
        handle = ProcessHandle(process.pid, pid_namespace())
        assert (handle.fd, handle.has_ended(), handle.kill()) == (None, False, False)
        assert process.poll() is None
        process.kill()
