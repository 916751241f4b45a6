"""Measured runs made by hand."""

from services.cli.bench.result import Record, Run
from services.cli.demo_batching.measured import Measured
from services.cli.demo_batching.timeline import Stretch, Timeline


def measured(
    mode, *, first_s=(1.0, 2.0), end_s=10.0, useful=50, held=100, opened_s=0.0, intended_s=0.0, answers=None
) -> Measured:
    """Two requests of 20 tokens each, in two slots one after the other, with a held stretch in the second."""
    answers = answers or {0: [1] * 20, 1: [2] * 20}
    records = [
        Record(
            index=index,
            intended_s=intended_s,
            sent_s=intended_s,
            end_s=end_s,
            message_s=[at_s, end_s],
            message_tokens=[1, 19],
        )
        for index, at_s in enumerate(first_s)
    ]
    stretches = [
        Stretch(0, 0, round(end_s * 1e6), 0),
        Stretch(1, 0, round(end_s * 5e5), 1),
        Stretch(1, round(end_s * 5e5), round(end_s * 1e6), None),
    ]
    timeline = Timeline(stretches, useful, held)
    run = Run(repeat=0, seed=1, duration_s=end_s, records=records)
    return Measured(mode, "a model", run, opened_s, timeline, answers)
