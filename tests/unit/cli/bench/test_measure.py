import pytest

from services.cli.bench.lengths import Lengths
from services.cli.bench.measure import Bench
from services.cli.bench.target import Refused
from services.cli.bench.workload import Pace, Shape, generate
from services.cli.console import Failed
from tests.unit.cli.bench.targets import FakeTarget

SHAPE = Shape(
    name="mine",
    num_requests=6,
    input_lengths=Lengths.of("9"),
    output_lengths=Lengths.of("1"),
    pace=Pace(users=2),
    turns=2,
)


def draw(repeat):
    return generate(SHAPE, 0, repeat)


def bench(target, announced=None):
    def announce(workload, what):
        if announced is not None:
            announced.append((workload, what))
        return lambda _record: None

    return Bench(target=target, timeout_s=5.0, announce=announce)


async def test_each_repeat_is_drawn_anew_and_told_apart():
    """Numbered for the eye and in the result."""
    announced = []
    runs = await bench(FakeTarget(), announced).repeats(draw, 2)
    assert [run.repeat for run in runs] == [0, 1]
    assert [what for _, what in announced] == ["repeat 1 of 2", "repeat 2 of 2"]
    assert announced[0][0].requests[0].prompt != announced[1][0].requests[0].prompt


async def test_the_warm_up_sends_first_turns_at_once_with_words_of_its_own():
    """No measured request finds them in a prefix cache."""
    target, announced = FakeTarget(), []
    await bench(target, announced).warm_up(draw, 2)
    assert [index for index, _ in target.sent] == [0, 2]
    measured = {request.prompt for repeat in range(3) for request in draw(repeat).requests}
    assert not measured & {request.prompt for request in announced[0][0].requests}


async def test_no_warm_up_sends_nothing():
    """Zero is zero."""
    target = FakeTarget()
    await bench(target).warm_up(draw, 0)
    assert target.sent == []


async def test_a_warm_up_of_which_nothing_is_answered_ends_it():
    """The reason is told; one answer among failures is enough to go on."""

    async def refuse():
        raise Refused("too busy")

    with pytest.raises(Failed, match="too busy"):
        await bench(FakeTarget(hooks={0: refuse, 2: refuse})).warm_up(draw, 2)
    await bench(FakeTarget(hooks={0: refuse})).warm_up(draw, 2)
