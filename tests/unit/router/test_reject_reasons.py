"""Reject reasons."""

import pytest

from services.router.reject_reasons import refusal_of
from services.wire.scheduling import Rejected, RejectReason


@pytest.mark.parametrize("reason", list(RejectReason))
def test_every_reason_has_words_and_a_failure(reason):
    """No reason is told as OK or without words, and the scheduler's own words are kept where the client may have them."""
    refusal = refusal_of(Rejected(handle=1, reason=reason))
    assert refusal.code.value[0] != 0
    assert len(refusal.message) > 20
    told = refusal_of(Rejected(handle=1, reason=reason, message="because of this"))
    assert ("because of this" in told.message) == (reason != RejectReason.UNSPECIFIED)
