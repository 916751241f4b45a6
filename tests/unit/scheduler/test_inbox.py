"""The inbox between threads."""

import select
import threading

from services.scheduler.inbox import CAPACITY, Inbox


def test_what_is_put_is_taken_in_order():
    """Items come out oldest first, and once."""
    inbox = Inbox()
    for number in range(5):
        inbox.put(number)
    assert inbox.take() == [0, 1, 2, 3, 4]
    assert inbox.take() == []
    inbox.close()


def test_a_put_wakes_a_poll_and_a_take_lets_it_sleep():
    """The descriptor is readable exactly while there is something to take."""
    inbox = Inbox()
    poll = select.poll()
    poll.register(inbox.fd, select.POLLIN)
    assert poll.poll(0) == []
    threading.Timer(0.05, inbox.put, ("hello",)).start()
    assert poll.poll(10_000)
    assert inbox.take() == ["hello"]
    assert poll.poll(0) == []
    inbox.close()


def test_nothing_is_lost_between_threads():
    """Four threads put while one takes: all arrive, each thread's in its order."""
    inbox, got = Inbox(), []
    threads = [
        threading.Thread(target=lambda name=name: [inbox.put((name, number)) for number in range(2000)])
        for name in range(4)
    ]
    for thread in threads:
        thread.start()
    while len(got) < 8000:
        got += inbox.take()
    for name in range(4):
        assert [number for who, number in got if who == name] == list(range(2000))
    for thread in threads:
        thread.join()
    inbox.close()


def test_it_says_when_it_is_full():
    """At capacity a polite sender waits."""
    inbox = Inbox()
    for number in range(CAPACITY):
        assert not inbox.is_full
        inbox.put(number)
    assert inbox.is_full
    inbox.take()
    assert not inbox.is_full
    inbox.close()
