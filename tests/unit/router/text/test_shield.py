"""Stand-ins for control tokens' names: none is missed, none collides, and all come back."""

from hypothesis import given
from hypothesis import strategies as st

from services.router.text.shield import ControlNames, Ids, Plain, Recognised, Shield
from tests.unit.router.text import models

NAMES = ControlNames(models.CONTROL)
PRIVATE = [chr(0xF0000), chr(0xF0001), chr(0x10FFFD)]
FRAGMENTS = st.lists(st.sampled_from([*models.CONTROL, "<|im_", "end|>", "<", "a", *PRIVATE]), max_size=10).map("".join)


def plain(pieces):
    return "".join(piece.text for piece in pieces)


@given(st.lists(FRAGMENTS, max_size=4))
def test_covered_text_holds_no_name_and_comes_back_whole(texts):
    """Whatever the texts, private characters of the user's own among them."""
    shield = NAMES.shield(texts)
    covered = [shield.cover(text) for text in texts]
    assert not any(name in text for text in covered for name in models.CONTROL)
    pieces = list(shield.pieces("|".join(covered)))
    assert plain(pieces) == "|".join(texts)
    assert all(piece.text in models.CONTROL for piece in pieces if isinstance(piece, Plain))
    assert not any(name in piece.text for piece in pieces if isinstance(piece, Recognised) for name in models.CONTROL)


def test_the_longest_of_overlapping_names_is_covered():
    """Where several begin at one place the longest is one stand-in; what remains is text."""
    shield = NAMES.shield(["<|im_end|>|<|im_end|><|im_end|>"])
    covered = shield.cover("<|im_end|>|<|im_end|><|im_end|>")
    assert list(shield.pieces(covered)) == [Plain("<|im_end|>|"), Plain("<|im_end|>"), Plain("<|im_end|>")]


def test_ids_stand_where_they_were_put():
    """Token ids pass a template as one character."""
    shield = NAMES.shield([])
    rendered = f"a{shield.cover_ids([1, 2])}b{shield.cover_ids([3])}"
    assert list(shield.pieces(rendered)) == [Recognised("a"), Ids([1, 2]), Recognised("b"), Ids([3])]


def test_a_model_without_control_tokens_needs_no_shield():
    """Text passes unchanged."""
    shield = Shield(None, ["x"])
    assert shield.cover("x<s>") == "x<s>"
    assert list(shield.pieces("x<s>")) == [Recognised("x<s>")]
