import numpy as np

from services.scheduler.core.draft import Draft
from services.scheduler.core.flight import Chunk
from services.scheduler.core.sequence import State
from services.wire.codec import encode
from tests.unit.scheduler.core.helpers import sequence

NOBODY = np.empty(0, np.intp)


def test_the_budget_counts_decodes_and_chunks():
    """What is left goes to the next chunk."""
    draft = Draft(0, 10, num_decodes=3, num_prefill_tokens=4)
    assert (draft.num_tokens, draft.left) == (7, 3)


def test_a_sealed_draft_names_each_change():
    """Columns of equal length."""
    draft = Draft(0, 10, append_slots=[1, 2], append_blocks=[8, 9])
    draft.chunks.append(Chunk(sequence(), 0, 5, 10, 14))
    plan = draft.seal(3, released=[4], started=np.array([6]), paused=np.array([7]), time_limit_ms=10)
    assert (plan.plan, plan.released.tolist(), plan.started.tolist(), plan.paused.tolist()) == (3, [4], [6], [7])
    assert (plan.append_slots.tolist(), plan.append_blocks.tolist()) == ([1, 2], [8, 9])
    assert (plan.chunk_slots.tolist(), plan.chunk_counts.tolist()) == ([5], [4])


def test_a_step_without_change_is_a_few_bytes():
    """Whatever the batch; each block boundary crossed adds eight."""
    plain = encode(
        Draft(0, 256, num_decodes=256).seal(10**6, released=[], started=NOBODY, paused=NOBODY, time_limit_ms=10**4)
    )
    grown = Draft(0, 256, append_slots=list(range(16)), append_blocks=list(range(16)))
    crossed = encode(grown.seal(10**6, released=[], started=NOBODY, paused=NOBODY, time_limit_ms=10**4))
    assert len(plain) <= 120
    assert len(crossed) <= 120 + 8 * 16


def test_a_chunk_is_current_until_its_sequence_has_left():
    """A later admission of the same sequence is another one."""
    one = sequence()
    chunk = Chunk(one, 4, 0, 0, 5)
    assert not chunk.is_current
    one.move(State.RUNNING)
    one.order = 4
    assert chunk.is_current
    one.order = 5
    assert not chunk.is_current
