import pytest

from services.cli.bench.http_target import HttpTarget
from services.cli.bench.result import Record
from services.cli.bench.target import Answer, Broken, Clock, Exchange, Refused
from services.cli.bench.workload import Request
from tests.support.fake_openai import FakeOpenAi

REQUEST = Request(index=0, prompt=bytes([0, 1, 2]), output_tokens=4)


async def sent(server, *, prompts="text", request=REQUEST, before=(), **options):
    """Asks for the facts, sends one request; the record and the answer."""
    record = Record(index=0, intended_s=0.0, sent_s=0.0, input_tokens=3, asked_tokens=4)
    async with HttpTarget(server.url, model="", prompts=prompts, **options) as target:
        await target.facts()
        return record, await target.send(request, before, record, Clock())


@pytest.mark.parametrize("usage", ["end", "last", "running"])
async def test_tokens_are_counted_wherever_the_server_tells_them(usage):
    """One token an event: four messages of one, and the sums that the server gives at the end."""
    with FakeOpenAi(usage=usage) as server:
        record, answer = await sent(server)
    assert record.message_tokens == [1, 1, 1, 1]
    assert record.message_s == sorted(record.message_s)
    assert (record.output_tokens, record.input_tokens, record.cached_tokens) == (4, 7, 3)
    assert record.counts_told
    assert answer.text == " word" * 4


async def test_a_running_count_tells_how_many_tokens_an_event_holds():
    """Four tokens in events of three and one."""
    with FakeOpenAi(usage="running", tokens_per_event=3) as server:
        record, _ = await sent(server)
    assert (record.message_tokens, record.counts_told) == ([3, 1], True)


@pytest.mark.parametrize("usage", ["end", "last"])
async def test_a_sum_that_is_not_the_number_of_messages_is_told(usage):
    """Four tokens in two events, and nobody knows in which: the sum is right, counts per message are not."""
    with FakeOpenAi(usage=usage, tokens_per_event=3) as server:
        record, _ = await sent(server)
    assert (record.message_tokens, record.output_tokens, record.counts_told) == ([1, 1], 4, False)


async def test_without_usage_messages_are_the_count():
    """What the workload knows of the prompt stands; of a prefix cache nothing is known."""
    with FakeOpenAi(usage="none") as server:
        record, _ = await sent(server)
    assert (record.output_tokens, record.input_tokens, record.cached_tokens) == (4, 3, None)


async def test_a_chat_begins_with_its_first_text():
    """The event that only says whose turn it is holds no token."""
    with FakeOpenAi() as server:
        record, answer = await sent(server, prompts="chat")
        assert server.requests[-1][0] == "/v1/chat/completions"
    assert (record.message_tokens, answer.text) == ([1, 1, 1, 1], " word" * 4)


async def test_lengths_are_forced_where_the_server_takes_the_fields():
    """min_tokens, max_tokens and ignore_eos, greedy, streamed, with usage; the first listed model."""
    with FakeOpenAi() as server:
        await sent(server)
    body = server.bodies[-1]
    assert (body["model"], body["prompt"], body["stream"], body["temperature"]) == ("tiny", "the of and", True, 0)
    assert (body["min_tokens"], body["max_tokens"], body["ignore_eos"]) == (4, 4, True)
    assert body["stream_options"]["include_usage"]


async def test_a_server_that_refuses_the_fields_is_asked_without_them():
    """The probe finds out, before anything is measured."""
    with FakeOpenAi(refuses_extra_fields=True) as server:
        record, _ = await sent(server)
        async with HttpTarget(server.url + "/v1/", model="mine", prompts="text") as target:
            facts = await target.facts()
    assert record.output_tokens == 4
    assert [("ignore_eos" in body) for body in server.bodies] == [True, False, True]
    assert (facts.model, facts.address, facts.details) == ("mine", server.url + "/v1", {"forced_lengths": False})


async def test_prompts_are_text_chat_or_token_ids_with_all_that_was_said_before():
    """A later turn repeats the conversation, with the answer that was given."""
    before = [Exchange(REQUEST, Answer(" yes", [5]))]
    later = Request(index=1, prompt=bytes([3]), output_tokens=2, conversation=0, turn=1)
    with FakeOpenAi() as server:
        await sent(server, request=later, before=before)
        await sent(server, request=later, before=before, prompts="chat")
        await sent(server, prompts="ids")
    text, chat, ids = server.bodies[1::2]
    assert text["prompt"] == "the of and yes\nto"
    assert [(each["role"], each["content"]) for each in chat["messages"]] == [
        ("user", "the of and"),
        ("assistant", " yes"),
        ("user", "to"),
    ]
    assert ids["prompt"] == [1000, 1001, 1002]


async def test_a_key_is_sent_along():
    """As the API wants it."""
    with FakeOpenAi() as server:
        await sent(server, api_key="s3cret")
    assert {headers.get("authorization") for _, headers, _ in server.requests} == {"Bearer s3cret"}


@pytest.mark.parametrize(
    ("behaviour", "kind", "words"),
    [
        ({"status": 429}, Refused, "HTTP 429: not now"),
        ({"status": 503}, Refused, "HTTP 503"),
        ({"status": 500}, Broken, "HTTP 500"),
        ({"cut_after": 2}, Broken, "without a last word"),
        ({"raw_event": '{"error": {"message": "no memory"}}'}, Broken, "no memory"),
        ({"raw_event": "{"}, Broken, "not of the API's form"),
        ({"raw_event": "[1]"}, Broken, "not of the API's form"),
        ({"raw_event": '{"choices": [1]}'}, Broken, "not of the API's form"),
        ({"raw_event": '"' + "x" * 3_000_000 + '"'}, Broken, "LineTooLong|ValueError"),
    ],
)
async def test_what_goes_wrong_is_a_refusal_or_a_failure(behaviour, kind, words):
    """Too busy is one thing, everything else another; the words are the server's."""
    with FakeOpenAi(**behaviour) as server, pytest.raises(kind, match=words):
        await sent(server)


async def test_a_stream_needs_no_done_after_its_reason():
    """A server that ends with the finish reason and closes has ended well."""
    with FakeOpenAi(says_done=False) as server:
        record, _ = await sent(server)
    assert record.output_tokens == 4


async def test_a_server_that_closes_without_a_word_gets_every_request():
    """A connection is not used twice: llama.cpp's server closes it after a stream, and would fail every other request."""
    with FakeOpenAi(says_close=False) as server:
        async with HttpTarget(server.url, model="tiny", prompts="text") as target:
            for _ in range(3):
                record = Record(index=0, intended_s=0.0, sent_s=0.0)
                assert (await target.send(REQUEST, (), record, Clock())).text == " word" * 4


async def test_nobody_there_is_told():
    """The facts are asked first; a server without a list of models is asked for an answer all the same."""
    async with HttpTarget("http://127.0.0.1:1", model="", prompts="text") as target:
        with pytest.raises(Broken, match="no answer from"):
            await target.facts()
    with FakeOpenAi(lists_models=False) as server:
        assert (await sent(server))[0].output_tokens == 4
