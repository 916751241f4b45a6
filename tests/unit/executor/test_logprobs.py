"""Logprob rows."""

import numpy as np
import torch

from services.executor.logprobs import LogprobCollector

LOGITS = np.array([0.5, 2.0, -1.0, 2.0, 0.0], np.float32)


def test_nothing_added_is_no_message():
    """A step in which nobody asked for logprobs carries none."""
    assert LogprobCollector().rows() is None


def test_a_row_tells_logprob_rank_and_the_best_by_logit_then_id():
    """The numbers are log_softmax of the logits; equals stand by id."""
    collector = LogprobCollector()
    collector.add(4, 9, LOGITS, 3, 3)
    rows = collector.rows()
    expected = torch.log_softmax(torch.from_numpy(LOGITS).double(), -1).numpy()
    assert (rows.slots.tolist(), rows.positions.tolist(), rows.ranks.tolist()) == ([4], [9], [2])
    assert rows.top_ids.tolist() == [1, 3, 0]
    np.testing.assert_allclose(rows.chosen, expected[[3]], rtol=1e-6)
    np.testing.assert_allclose(rows.top_logprobs, expected[[1, 3, 0]], rtol=1e-6)


def test_zero_asks_for_the_chosen_one_alone_and_more_than_all_gives_all():
    """Top counts run from none to the vocabulary."""
    collector = LogprobCollector()
    collector.add(0, 1, LOGITS, 2, 0)
    collector.add(0, 2, LOGITS, 2, 99)
    rows = collector.rows()
    assert rows.top_counts.tolist() == [0, 5]
    assert rows.top_ids.tolist() == [1, 3, 0, 4, 2]
    assert rows.ranks.tolist() == [5, 5]
