from services.scheduler.core.step_time import StepTime


def test_nothing_is_predicted_before_a_measurement():
    """Zero means unknown."""
    assert StepTime().predict_us(100) == 0


def test_the_first_measurement_is_the_estimate_and_later_ones_move_it():
    """By an eighth each."""
    model = StepTime()
    model.observe(100, 8000)
    assert model.predict_us(100) == 8000
    model.observe(100, 16000)
    assert model.predict_us(100) == 9000


def test_a_larger_step_is_scaled_up_and_a_smaller_one_never_down():
    """The fixed cost of a step is unknown."""
    model = StepTime()
    model.observe(100, 8000)
    assert model.predict_us(400) == 32_000
    assert model.predict_us(3) == 8000


def test_equal_measurements_give_equal_estimates():
    """Integers only: a replay agrees."""
    models = [StepTime(), StepTime()]
    for model in models:
        for size in range(1, 200):
            model.observe(size, size * 37)
    assert models[0].predict_us(77) == models[1].predict_us(77)
