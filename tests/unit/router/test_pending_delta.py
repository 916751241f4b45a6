"""Pending deltas."""

from headway.v1 import inference_pb2 as api
from hypothesis import given
from hypothesis import strategies as st

from services.router.pending_delta import PendingDelta


@given(st.lists(st.tuples(st.integers(0, 99), st.text(max_size=3), st.booleans())))
def test_nothing_is_lost_or_doubled_however_it_is_taken(steps):
    """The taken deltas, joined, are what was added, whenever the writer takes."""
    pending = PendingDelta(2)
    token_ids, text, logprobs = [], "", []
    for token_id, piece, take in steps:
        pending.add_tokens([token_id], [api.TokenLogprobs(token_id=token_id)])
        pending.add_text(piece)
        if take:
            assert pending
            delta = pending.take()
            assert delta.index == 2
            token_ids += delta.token_ids
            text += delta.text
            logprobs += delta.logprobs
            assert not pending
    rest = pending.take()
    assert [*token_ids, *rest.token_ids] == [step[0] for step in steps]
    assert text + rest.text == "".join(step[1] for step in steps)
    assert [row.token_id for row in [*logprobs, *rest.logprobs]] == [step[0] for step in steps]


def test_each_kind_of_content_is_pending():
    """Text alone and prompt logprobs alone are something to take; empty text is not."""
    pending = PendingDelta(0)
    pending.add_text("")
    assert not pending
    pending.add_text("x")
    assert pending
    pending.take()
    pending.add_prompt_logprobs([api.TokenLogprobs(token_id=1)])
    assert pending
    assert len(pending.take().prompt_logprobs) == 1
    assert not pending
