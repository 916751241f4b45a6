"""Stop strings: the first that completes ends the text, wherever the pieces are cut, and little is held back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.router.text.stop_strings import StopMatch, StopScanner, StopStrings

WORDS = st.lists(st.text("ab<", min_size=1, max_size=4), min_size=1, max_size=32)


def naive(text, strings):
    """Where the text ends and by what: the first end of any string in it, then the longest string that ends there."""
    for end in range(1, len(text) + 1):
        ending = [string for string in strings if text[:end].endswith(string)]
        if ending:
            return text[: end - len(max(ending, key=len))], max(ending, key=len)
    return text, None


def scan(scanner, pieces):
    """All text that comes out of the pieces, and the stop string found."""
    out = []
    for piece in pieces:
        found = scanner.push(piece)
        if isinstance(found, StopMatch):
            return "".join(out) + found.text, found.string
        out.append(found)
    return "".join(out) + scanner.finish(), None


@given(st.lists(st.text("ab<x", max_size=5), max_size=12), WORDS)
def test_any_text_ends_where_a_search_of_the_whole_would_end_it(pieces, strings):
    """The automaton agrees with looking at the whole text, however it is cut."""
    assert scan(StopScanner(StopStrings(strings)), pieces) == naive("".join(pieces), strings)


@given(st.text("ab<x", max_size=30), WORDS)
def test_what_is_held_back_is_the_longest_possible_beginning(text, strings):
    """After every character: all text is given out but the longest end that can still become a stop string.

    Unheeded, so that the automaton also goes on from completed strings.
    """
    scanner = StopScanner(StopStrings(strings))
    for place, character in enumerate(text):
        scanner.push(character, heed=False)
        seen = text[: place + 1]
        beginnings = {string[:length] for string in strings for length in range(1, len(string))}
        assert scanner._held == max((b for b in beginnings if seen.endswith(b)), key=len, default="")


@pytest.mark.parametrize(
    ("strings", "pieces", "text", "string"),
    [
        (["ab", "abc"], ["xabc"], "x", "ab"),  # a prefix of another: the one that completes first
        (["ab", "xab"], ["xxab"], "x", "xab"),  # ending together: the one that begins first
        (["abc"], ["a", "b", "x"], "abx", None),  # begun and not completed
        (["aab"], ["a", "a", "a", "b"], "a", "aab"),  # a false start inside a true one
        (["STOP"], ["say S", "TO", "P now"], "say ", "STOP"),  # over three pieces, beginning inside one
        (["abcd", "bc"], ["abx", "abc"], "abxa", "bc"),  # found while a longer one looked likely
        (["\n\n"], ["a\n", "\nb"], "a", "\n\n"),
        (["끝🙂"], ["이제 끝", "🙂!"], "이제 ", "끝🙂"),
    ],
)
def test_known_cases(strings, pieces, text, string):
    """The rules, one by one."""
    assert scan(StopScanner(StopStrings(strings)), pieces) == (text, string)


def test_the_stop_string_can_be_left_in_the_text():
    """What follows it is cut off all the same."""
    assert scan(StopScanner(StopStrings(["end"]), include_stop_string=True), ["the e", "nd of"]) == ("the end", "end")


def test_an_unheeded_match_is_text_and_may_be_the_beginning_of_a_heeded_one():
    """Text that completes a stop string too early passes; one that completes later is found, wherever it began."""
    scanner = StopScanner(StopStrings(["ab", "abab"]))
    assert scanner.push("ab", heed=False) == ""
    assert scanner.push("ab") == StopMatch(string="abab", text="")
    scanner = StopScanner(StopStrings(["ab"]))
    assert scanner.push("xaby", heed=False) == "xaby"


def test_an_empty_stop_string_is_refused():
    """It would end every answer before it begins."""
    with pytest.raises(ValueError, match="empty"):
        StopStrings(["a", ""])


def test_no_strings_is_false():
    """A request without stop strings can skip the scan."""
    assert not StopStrings([])
    assert StopStrings(["a"])
