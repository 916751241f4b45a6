from services.scheduler.core.latency_class import LatencyClass
from services.scheduler.core.pace import Pace
from services.scheduler.core.running import Running
from services.scheduler.core.step_cost import StepCost
from tests.unit.scheduler.core.helpers import sequence


def cost() -> StepCost:
    """1 ms a step and 100 us a token."""
    made = StepCost()
    for num_tokens in (1, 4, 40, 400):
        made.observe(num_tokens, 1000, 1000 + 100 * num_tokens, predicted_us=0)
    return made


def pace(target_us: int, model: StepCost | None = None) -> Pace:
    return Pace(Running(4, 16), model or cost(), token_budget=500, target_us=target_us)


def test_the_budget_is_what_the_target_leaves():
    """Beside 10 decodes, which take 2 ms, 80 tokens of a prompt fill 10 ms."""
    assert 85 <= pace(10_000).budget(10) <= 90


def test_a_target_that_decodes_miss_leaves_one_block_to_prompts():
    """Nobody starves."""
    assert pace(1500).budget(10) == 26


def test_the_token_budget_stays_the_most():
    """However long the target, and with no target, no decodes, or nothing known of what steps take."""
    for chosen, num_decodes in ((pace(10_000_000), 10), (pace(0), 10), (pace(10_000), 0), (pace(1000, StepCost()), 10)):
        assert chosen.budget(num_decodes) == 500


def test_a_target_counts_only_where_somebody_decodes():
    """It is what the record of the step says the budget was chosen by."""
    assert pace(10_000).target_us(1) == 10_000
    assert pace(10_000).target_us(0) == 0


def test_the_shortest_promise_to_anybody_who_decodes_counts():
    """To all by the settings, or to one by its class."""
    running = Running(4, 16)
    chosen = Pace(running, cost(), token_budget=500, target_us=20_000)
    assert chosen.target_us(1) == 20_000
    for tbt_us, shortest in ((30_000, 20_000), (10_000, 10_000)):
        one = sequence(tbt_us, prompt=16)
        one.latency_class = LatencyClass("c", tbt_us=tbt_us)
        running.seat(one, 0)
        one.table = [1]
        running.compute(one, 16)
        running.choose_decodes(9, seat_for_prefill=False, alone=None)
        assert chosen.target_us(1) == shortest


def test_a_prompt_that_goes_on_reads_what_is_computed_of_it():
    """Behind a long beginning fewer tokens fit."""
    model = StepCost()
    for num_tokens, context in ((1, 10), (1, 4000), (400, 400), (400, 5000)):
        model.observe(num_tokens, context, 1000 + 100 * num_tokens + context, predicted_us=0)
    running = Running(4, 16)
    chosen = Pace(running, model, token_budget=500, target_us=10_000)
    free = chosen.budget(10)
    one = sequence(1, prompt=6000)
    running.seat(one, 4000)
    assert chosen.budget(10) < free - 30
