"""Worker threads help with few rows only while that pays."""

import pytest

from services.executor.backends.workers import Workers


def run(workers, rows, steps, seconds):
    """Runs steps that take seconds[whether helped]; returns which were helped."""
    helped = []
    for _ in range(steps):
        helped.append(workers.help_with(rows))
        workers.took(rows, seconds[helped[-1]], together=helped[-1])
    return helped


@pytest.mark.parametrize(("seconds", "pays"), [({False: 4.2, True: 3.1}, True), ({False: 4.2, True: 4.0}, False)])
def test_the_way_that_pays_is_taken_and_the_other_tried_now_and_then(seconds, pays):
    """Help that makes a step a sixth faster is taken, less is not; one step in 32 goes the other way."""
    helped = run(Workers(2), 1, 320, seconds)
    assert helped[64:].count(pays) == 248


def test_a_neighbour_that_comes_and_goes_changes_the_way_within_a_hundred_steps():
    """When help begins or ceases to pay, that is noticed after three tries."""
    workers = Workers(2)
    run(workers, 1, 200, {False: 4.2, True: 3.1})
    assert run(workers, 1, 100, {False: 4.2, True: 9.0})[8:].count(True) <= 3
    assert run(workers, 1, 228, {False: 4.2, True: 3.1})[128:].count(True) >= 96


def test_one_slow_step_changes_nothing():
    """A step that the machine held up is outvoted by those around it."""
    workers = Workers(2)
    run(workers, 1, 320, {False: 4.2, True: 3.1})
    workers.help_with(1)
    workers.took(1, 100.0, together=True)
    assert run(workers, 1, 20, {False: 4.2, True: 3.1}).count(True) >= 19


def test_sizes_of_steps_are_judged_apart():
    """What pays for eight rows need not pay for one."""
    workers = Workers(2)
    run(workers, 1, 64, {False: 1.0, True: 1.0})
    run(workers, 8, 64, {False: 2.0, True: 1.0})
    assert (workers.help_with(1), workers.help_with(8)) == (False, True)


def test_many_rows_are_always_helped():
    """More than eight rows are worth every thread."""
    assert all(run(Workers(2), 9, 100, {False: 1.0, True: 2.0}))


def test_a_thread_without_workers_has_no_help():
    """With one thread there is nobody to ask."""
    assert not any(run(Workers(1), 1, 100, {False: 1.0, True: 1.0}) + run(Workers(1), 64, 3, {False: 1.0}))
