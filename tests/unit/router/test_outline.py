"""The outline of a message: its largest field is found whatever else is wrong with it."""

import pytest
from headway.v1 import inference_pb2 as api

from services.router.outline import largest_field
from tests.support.router import request


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (request("x" * 1000, request_id="r" * 100), "parts"),
        (request("x", stop={"strings": [""] * 10_000}), "stop"),
        (request("x", labels={str(k): "" for k in range(5000)}), "labels"),
        (request("x", resume=api.Resume(token_ids=range(1000), seed=2**64 - 1, fingerprint="f")), "resume"),
        (api.GenerateRequest(priority=-1, deadline_s=1.0), "priority"),
        (api.GenerateRequest(), ""),
    ],
)
def test_the_largest_field_is_named(message, name):
    """By the bytes that all of its occurrences take together."""
    assert largest_field(api.GenerateRequest, message.SerializeToString()) == name


@pytest.mark.parametrize("data", [b"\xff" * 100, b"\x0b" * 100, b"\x0a", b"\xc2\x3e\x05zzzzz"])
def test_what_is_no_message_has_no_largest_field(data):
    """Endless numbers, groups, a header cut short, and fields that nobody knows."""
    assert largest_field(api.DetokenizeRequest, data) in ("", "model")


def test_a_cut_message_is_still_told_by_its_beginning():
    """The field that runs past the end is the largest."""
    data = request("x" * 1000, request_id="r").SerializeToString()
    assert largest_field(api.GenerateRequest, data[:500]) == "parts"
