import json

import pytest

from services.cli.bench.traces import Row, read, replay
from services.runtime.lifecycle import BadSetting

MOONCAKE = [
    {"timestamp": 27482, "input_length": 1030, "output_length": 52, "hash_ids": [46, 47, 48]},
    {"timestamp": 30535, "input_length": 1200, "output_length": 26, "hash_ids": [46, 47, 99]},
    {"timestamp": 30535, "input_length": 20, "output_length": 4},
]
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:51.0,5,0\n"
)
AZURE_2024 = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n"
BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,Conversation log\n118,GPT-4,417,276,693,API log\n"
)


@pytest.fixture
def file(tmp_path):
    def make(text):
        path = tmp_path / "trace"
        path.write_text(text)
        return path

    return make


def mooncake(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_mooncakes_rows_are_read(file):
    """Milliseconds become seconds; hash ids are kept."""
    assert read(file(mooncake(*MOONCAKE))) == [
        Row(27.482, 1030, 52, (46, 47, 48)),
        Row(30.535, 1200, 26, (46, 47, 99)),
        Row(30.535, 20, 4),
    ]


def test_azures_rows_are_read(file):
    """Seven digits after the second, or a time zone; a row without an answer is left out."""
    rows = read(file(AZURE))
    assert [(row.input_tokens, row.output_tokens) for row in rows] == [(374, 44), (396, 109)]
    assert rows[1].at_s - rows[0].at_s == pytest.approx(4.314579, abs=1e-5)
    assert read(file(AZURE_2024))[0].input_tokens == 2162


def test_burstgpts_rows_are_read(file):
    """Seconds; an answer of no token was a failure and is left out."""
    assert read(file(BURSTGPT)) == [Row(5.0, 472, 18), Row(118.0, 417, 276)]


def test_the_first_rows_are_enough(file):
    """A trace of millions is read as far as it is asked for; what follows may be anything."""
    assert len(read(file(mooncake(*MOONCAKE) + "garbage"), 2)) == 2


def test_rows_come_by_time(file):
    """Whatever their order in the file."""
    rows = read(file(mooncake(*reversed(MOONCAKE))))
    assert [row.at_s for row in rows] == [27.482, 30.535, 30.535]


@pytest.mark.parametrize(
    "text",
    ["", "hello\n", "a,b\n1,2\n", "{\n", '{"timestamp": 1}\n', mooncake(MOONCAKE[0] | {"input_length": 0}),
     mooncake(MOONCAKE[0] | {"timestamp": float("nan")}), mooncake(MOONCAKE[0] | {"hash_ids": 3}), AZURE[:45] + "x,1,1\n",
     "\udc00".encode("utf-8", "surrogatepass").decode("latin1"), "Request tokens,Response tokens\n1,1\n"],
)  # fmt: skip
def test_what_is_no_trace_is_refused(file, text):
    """The words name the file and what was found in it."""
    with pytest.raises(BadSetting, match="trace"):
        read(file(text))


def test_a_trace_that_is_not_there_is_told(tmp_path):
    """With the system's reason."""
    with pytest.raises(BadSetting, match="No such file"):
        read(tmp_path / "nope")


def test_equal_hash_ids_are_equal_tokens():
    """The first 1024 tokens of both are shared, what follows is not; lengths are exact; the last block is cut."""
    rows = [Row(1.0, 1030, 52, (46, 47, 48)), Row(4.0, 1200, 26, (46, 47, 99)), Row(5.0, 20, 4)]
    work = replay("t", rows, None, seed=1)
    first, second, third = work.requests
    assert [len(each.prompt) for each in work.requests] == [1030, 1200, 20]
    assert first.prompt[:1024] == second.prompt[:1024]
    assert first.prompt[1024:1030] != second.prompt[1024:1030]
    assert third.prompt != first.prompt[:20]
    assert [each.output_tokens for each in work.requests] == [52, 26, 4]


def test_a_trace_is_replayed_at_its_own_pace_from_its_first_request():
    """Offsets are those recorded; the rate is what that comes to."""
    work = replay("t", [Row(10.0, 1, 1), Row(12.0, 1, 1), Row(14.0, 1, 1)], None, seed=1)
    assert [each.arrival_s for each in work.requests] == [0.0, 2.0, 4.0]
    assert work.pace.rate_per_s == 0.75


def test_a_trace_is_stretched_to_a_rate():
    """Three requests at 6 per second take half a second, the proportions of the gaps kept."""
    work = replay("t", [Row(10.0, 1, 1), Row(11.0, 1, 1), Row(14.0, 1, 1)], 6.0, seed=1)
    assert [each.arrival_s for each in work.requests] == [0.0, 0.125, 0.5]


def test_a_repeat_draws_other_words_of_the_same_lengths():
    """So it does not find the prefix cache of the one before."""
    rows = [Row(0.0, 600, 1, (7, 8)), Row(1.0, 30, 1)]
    first, second = (replay("t", rows, None, seed=1, repeat=repeat).requests for repeat in (0, 1))
    assert all(one.prompt != other.prompt for one, other in zip(first, second, strict=True))


def test_a_trace_without_a_duration_needs_a_rate():
    """All at once has no pace of its own."""
    rows = [Row(3.0, 1, 1), Row(3.0, 1, 1)]
    with pytest.raises(BadSetting, match="--rate"):
        replay("t", rows, None, seed=1)
    assert [each.arrival_s for each in replay("t", rows, 2.0, seed=1).requests] == [1.0, 1.0]
