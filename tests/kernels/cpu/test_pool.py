"""The thread pool: every task once, callers one at a time, and a child of fork that begins anew."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from itertools import pairwise

import pytest

from kernels.cpu.library import load

TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@pytest.fixture
def pool():
    library = load()
    before = library.threads
    library.handle.headway_parallel.argtypes = [ctypes.c_int64, TASK, ctypes.c_void_p]
    library.handle.headway_parallel.restype = None
    yield library
    library.set_threads(before)


def run(pool, tasks, each=lambda _begin, _end: None):
    """Runs `tasks` and returns the shares they were given out in."""
    shares = []

    def task(_context, begin, end):
        each(begin, end)
        shares.append((begin, end))

    pool.handle.headway_parallel(tasks, TASK(task), None)
    return sorted(shares)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_task_is_done_once(pool, threads):
    """Shares lie end to end from the first task to the last, and none is empty."""
    pool.set_threads(threads)
    for tasks in (1, 2, 3, 7, 16, 1000):
        shares = run(pool, tasks)
        assert shares[0][0] == 0
        assert shares[-1][1] == tasks
        assert all(end == begin for (_, end), (begin, _) in pairwise(shares))
        assert all(begin < end for begin, end in shares)


def test_nothing_is_run_for_no_tasks(pool):
    """No task, no call."""
    assert run(pool, 0) == []
    assert run(pool, -5) == []


def test_a_worker_takes_its_part(pool):
    """With two threads, a share that waits for another to begin is not waited for in vain."""
    pool.set_threads(2)
    both = threading.Barrier(2, timeout=30)
    run(pool, 2, lambda _begin, _end: both.wait())


def test_the_caller_alone_finishes_what_no_worker_takes(pool):
    """While the only worker is held up in one share, the caller does all the others."""
    pool.set_threads(2)
    caller = threading.get_ident()
    done_by_caller, may_go_on = [], threading.Event()

    def each(begin, end):
        if threading.get_ident() != caller:
            assert may_go_on.wait(30)
            return
        done_by_caller.append((begin, end))
        if len(done_by_caller) == 15:  # of 16: the worker has one, or is yet to come
            may_go_on.set()

    assert len(run(pool, 16, each)) == 16
    assert len(done_by_caller) >= 15


def test_the_number_of_threads_can_change_at_any_time(pool):
    """Between jobs, and while other threads call: no task is lost."""
    counts = []

    def call():
        counts.append(sum(end - begin for _ in range(50) for begin, end in run(pool, 20)))

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    for threads in (2, 1, 4, 3, 1, 2):
        pool.set_threads(threads)
        assert pool.threads == threads
    for caller in callers:
        caller.join()
    assert counts == [1000] * 3


def test_there_is_always_one_thread(pool):
    """Zero or fewer threads are one."""
    for asked in (0, -3):
        pool.set_threads(asked)
        assert pool.threads == 1
        assert run(pool, 5) == [(0, 5)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("inner", ["headway_parallel", "headway_set_threads"])
def test_a_task_that_calls_the_pool_ends_the_process(inner, threads):
    """A nested call would wait for itself for ever: it aborts at once, and says what was called."""
    code = f"""
import ctypes
from kernels.cpu.library import load
library = load()
library.set_threads({threads})
parallel, task = library.handle.headway_parallel, ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
noop = task(lambda *_: None)
calls = {{"headway_parallel": lambda: parallel(ctypes.c_int64(3), noop, None), "headway_set_threads": lambda: library.set_threads(2)}}
parallel(ctypes.c_int64(4), task(lambda *_: calls[{inner!r}]()), None)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGABRT
    assert f"a task of the thread pool called {inner.removeprefix('headway_')}" in done.stderr


def test_a_child_of_fork_computes_with_threads_of_its_own():
    """After fork, with workers running in the parent, the child's pool works and both end cleanly."""
    code = """
import os, threading, sys
import numpy as np
from kernels.cpu.library import load
library = load()
library.set_threads(3)
linear = library.linear(64)
linear.add_segment("F32", 200, np.ones((200, 64), np.float32))
x = np.ones((4, 64), np.float32)
assert (linear.run(x) == 64).all()
child = os.fork()
assert (linear.run(x) == 64).all()
assert library.threads == 3
if child == 0:
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_process_ends_while_a_thread_still_computes():
    """A daemon thread in the middle of its work does not keep the interpreter from ending, nor crash it."""
    code = """
import threading, time
import numpy as np
from kernels.cpu.library import load
library = load()
library.set_threads(2)
linear = library.linear(256)
linear.add_segment("F32", 4096, np.ones((4096, 256), np.float32))
x = np.ones((64, 256), np.float32)
started = threading.Event()
def compute():
    while True:
        linear.run(x)
        started.set()
threading.Thread(target=compute, daemon=True).start()
started.wait()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_workers_sleep_when_there_is_nothing_to_do(pool):
    """Idle workers use no CPU time: they spin for microseconds, then sleep."""
    pool.set_threads(4)
    run(pool, 100)
    before = os.times()
    threading.Event().wait(0.5)
    after = os.times()
    assert (after.user - before.user) + (after.system - before.system) < 0.25
