from services.cli.bench.target import Answer, Exchange, chat_of, ids_of, text_of
from services.cli.bench.workload import Request

FIRST = Request(index=0, prompt=bytes([0, 1]), output_tokens=1)
SECOND = Request(index=1, prompt=bytes([2]), output_tokens=1)
SAID = [Exchange(FIRST, Answer(" yes", [70, 71]))]


def test_a_first_turn_is_its_own_prompt():
    """Nothing was said before."""
    assert text_of((), FIRST) == "the of"
    assert chat_of((), FIRST) == [{"role": "user", "content": "the of"}]
    assert ids_of((), FIRST, 100) == [100, 101]


def test_a_later_turn_begins_with_exactly_what_was_said():
    """So that a prefix cache can find it: prompt and answer come unchanged before the new words."""
    assert text_of(SAID, SECOND) == "the of yes\nand"
    assert [each["content"] for each in chat_of(SAID, SECOND)] == ["the of", " yes", "and"]
    assert [each["role"] for each in chat_of(SAID, SECOND)] == ["user", "assistant", "user"]
    assert ids_of(SAID, SECOND, 100) == [100, 101, 70, 71, 102]
