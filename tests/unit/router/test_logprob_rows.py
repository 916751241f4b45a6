"""Logprob rows."""

import pytest

from services.router.logprob_rows import rows_by_handle
from tests.support.fake_model import logprob_rows


def test_rows_find_their_handles_with_their_own_best_tokens():
    """Interleaved rows of several handles keep their order and their slices of the flat columns."""
    first = logprob_rows(7, [(3, -0.5, 1, [(10, -0.5), (11, -1.0)]), (4, -2.0, 3, [])])
    assert rows_by_handle(None) == {}
    rows = rows_by_handle(first)
    assert list(rows) == [7]
    assert [(row.position, row.logprob, row.rank, row.top_ids) for row in rows[7]] == [
        (3, -0.5, 1, [10, 11]),
        (4, -2.0, 3, []),
    ]


def test_a_row_becomes_what_clients_read():
    """Token, logprob, rank and best ones are told as they are."""
    (row,) = rows_by_handle(logprob_rows(1, [(0, -0.25, 2, [(5, -0.125)])]))[1]
    told = row.to_proto(9)
    assert (told.token_id, told.logprob, told.rank) == (9, -0.25, 2)
    assert told.top[0].token_id == 5
    assert told.top[0].logprob == pytest.approx(-0.125)
