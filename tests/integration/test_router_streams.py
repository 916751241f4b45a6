"""A client's stream through a real router and a scripted scheduler."""

import asyncio

import grpc
import pytest
from headway.v1 import inference_pb2 as api

from services.wire.chain import block_hashes
from services.wire.scheduling import FinishCause
from tests.support.fake_model import END, FINGERPRINT, MODEL, ids_of, letters, logprob_rows
from tests.support.fake_scheduler import until
from tests.support.router import bench, of_ids, request, rest_of
from tests.support.scripts import says, silent


async def test_an_answer_streams_with_start_text_tokens_and_end():
    """A stream starts with the request's names and ends with reason, usage, bill and timings; its deltas are the answer."""
    async with bench() as made:
        heard = await made.client.generate(request("hello", max_tokens=5, sampling={"seed": 9}))
        assert heard.text == "abcde"
        assert heard.token_ids == ids_of("abcde")
        started = heard.messages[0].started
        assert (started.model, started.fingerprint, started.seed) == (MODEL, FINGERPRINT, 9)
        assert started.request_id.startswith("req-")
        assert heard.messages[0].delta.token_ids
        assert heard.finished.reason == api.FINISH_REASON_LENGTH
        usage = heard.finished.usage
        assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (5, 3, 5)
        assert heard.finished.bill.kv_block_seconds == 2.0
        assert heard.finished.bill.executor_ms == 7.0
        timings = heard.finished.timings
        assert (timings.queued_s, timings.prefill_s) == (0.0015, 0.0025)
        assert 0 < timings.time_to_first_token_s <= timings.total_s
        assert timings.time_between_tokens_mean_s <= timings.time_between_tokens_max_s <= timings.total_s


async def test_the_scheduler_gets_what_it_needs():
    """A Submit carries tokens, the whole chain of full blocks, the seed, limits and sampling."""
    async with bench() as made:
        text = "x" * 40
        await made.client.generate(
            request(text, max_tokens=2, priority=3, latency_class="batch", sampling={"seed": 5, "top_k": 4}),
            timeout=20,
        )
        submit = made.scheduler.submits[0]
        assert submit.token_ids.tolist() == ids_of(text)
        assert (submit.prompt_length, submit.accepted_count, submit.max_tokens) == (40, 0, 2)
        assert submit.block_hashes == b"".join(block_hashes(submit.chain_root, submit.token_ids, 16))
        assert len(submit.block_hashes) == 2 * 16
        assert (submit.seed, submit.priority, submit.latency_class, submit.resubmitted) == (5, 3, "batch", False)
        assert submit.sampling.top_k == 4
        assert 15_000_000 < submit.time_left_us < 21_000_000  # gRPC rounds a deadline up


async def test_unset_max_tokens_is_the_default_clipped_to_the_room():
    """Without max_tokens an answer has the default length, or what the prompt leaves of the model."""
    async with bench() as made:
        assert len((await made.client.generate(request("hello"))).token_ids) == 20
        assert len((await made.client.generate(request("x" * 1020))).token_ids) == 4


async def test_chat_is_rendered_by_the_template():
    """Chat messages become the prompt that the model's template makes of them."""
    async with bench() as made:
        chat = api.ChatPrompt(messages=[api.ChatMessage(role="user", content=[api.Part(text="hi <end>")])])
        await made.client.generate(api.GenerateRequest(chat=chat))
        tokens = await made.client.stub.Tokenize(api.TokenizeRequest(chat=chat))
        assert made.scheduler.submits[0].token_ids.tolist() == list(tokens.token_ids)
        # The name of the control token is spelled out: user text cannot forge it.
        assert list(tokens.token_ids) == ids_of("[user]hi <") + ids_of("end>[assistant]")


async def test_a_stop_token_is_a_token_but_no_text():
    """The stop token is emitted and counted, and is not part of the text."""
    async with bench() as made:
        made.scheduler.script = says("bye")
        heard = await made.client.generate(request())
        assert heard.text == "bye"
        assert heard.token_ids == [*ids_of("bye"), END]
        assert heard.finished.reason == api.FINISH_REASON_STOP_TOKEN
        assert heard.finished.stop_token_id == END
        assert heard.finished.usage.completion_tokens == 4


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_stop_string_ends_at_once(at_once):
    """A stop string ends the answer without the scheduler's word, which hears how many tokens were accepted."""
    async with bench() as made:
        made.scheduler.script = says("one STOP two", cause=FinishCause.LENGTH, at_once=at_once)
        heard = await made.client.generate(request(stop={"strings": ["STOP", "never"]}))
        assert heard.text == "one "
        assert heard.token_ids == ids_of("one STOP")
        assert heard.finished.reason == api.FINISH_REASON_STOP_STRING
        assert heard.finished.stop_string == "STOP"
        assert heard.finished.usage.completion_tokens == 8
        assert not heard.finished.HasField("bill")
        await until(lambda: made.scheduler.stops)
        assert made.scheduler.stops[0].accepted_count == 8


async def test_an_unfinished_stop_string_and_character_come_with_the_end():
    """Held-back text is never lost: it goes out with the end of the answer."""
    async with bench() as made:
        made.scheduler.script = says("ok STO", cause=FinishCause.LENGTH)
        heard = await made.client.generate(request(stop={"strings": ["STOP"]}))
        assert heard.text == "ok STO"
        assert heard.messages[-1].delta.text == "STO"
        assert heard.messages[-1].HasField("finished")


async def test_the_first_token_is_sent_at_once_and_later_ones_pile_up():
    """The first token does not wait for the second; a reader that pauses gets what came meanwhile in few messages."""
    async with bench() as made:
        gate = asyncio.Event()

        async def script(session, submit):
            await session.tokens(submit, ids_of("a"))
            await gate.wait()
            for k in range(1, 2000):
                await session.tokens(submit, ids_of(letters(k, 1)))
            await session.finish(submit, FinishCause.LENGTH)

        made.scheduler.script = script
        options = [("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0)]
        async with grpc.aio.insecure_channel(made.server.address, options=options) as channel:
            call = channel.unary_stream(
                "/headway.v1.Inference/Generate", response_deserializer=api.GenerateResponse.FromString
            )(request(max_tokens=1000).SerializeToString())
            first = await call.read()
            assert (first.delta.text, first.started.model) == ("a", MODEL)
            gate.set()
            await asyncio.sleep(1.0)
            messages = []
            while (message := await call.read()) is not grpc.aio.EOF:
                messages.append(message)
        assert "".join(message.delta.text for message in messages) == letters(1, 1999)
        assert len(messages) < 1500
        assert max(len(message.delta.token_ids) for message in messages) > 100


async def test_a_client_that_goes_away_cancels():
    """When a client cancels its call, the scheduler is told to stop computing for it."""
    async with bench() as made:
        made.scheduler.script = silent
        call = made.client.stub.Generate(request())
        await until(lambda: made.scheduler.num_live == 1)
        call.cancel()
        await until(lambda: made.scheduler.cancels)
        await until(lambda: made.server.intake.num_live == 0)
        assert made.scheduler.num_live == 0


async def test_a_slow_reader_is_ended_and_holds_nothing():
    """A reader that takes nothing for the limit is ended; the scheduler streamed on regardless."""
    async with bench(slow_reader_s=0.5) as made:
        finished = asyncio.Event()

        async def script(session, submit):
            for k in range(100):
                await session.tokens(submit, ids_of(letters(k, 1)) * 100)
            await session.finish(submit, FinishCause.LENGTH)
            finished.set()

        made.scheduler.script = script
        options = [("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0)]
        async with grpc.aio.insecure_channel(made.server.address, options=options) as channel:
            call = channel.unary_stream(
                "/headway.v1.Inference/Generate", response_deserializer=api.GenerateResponse.FromString
            )(request().SerializeToString())
            await call.read()
            await asyncio.wait_for(finished.wait(), 20)
            await until(lambda: made.server.intake.num_live == 0)
            _, failure = await rest_of(call)
        assert (failure.code, failure.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "SLOW_READER")


async def test_n_answers_are_n_sequences_with_their_own_seeds():
    """Each of n answers is one Submit with its own seed and index; each is told to its end."""
    async with bench() as made:
        response = await made.client.stub.Complete(request(n=3, max_tokens=4, sampling={"seed": 1}))
        assert [answer.text for answer in response.answers] == ["abcd"] * 3
        assert [answer.finished.usage.completion_tokens for answer in response.answers] == [4] * 3
        assert response.started.seed == 1
        seeds = {submit.answer_index: submit.seed for submit in made.scheduler.submits}
        assert sorted(seeds) == [0, 1, 2]
        assert len(set(seeds.values())) == 3


async def test_complete_says_what_generate_says():
    """The unary answer is the concatenation of the stream's deltas."""
    async with bench() as made:
        made.scheduler.script = says("héllo 👩‍👩‍👧 안녕")
        streamed = await made.client.generate(request())
        response = await made.client.stub.Complete(request())
        assert response.answers[0].text == streamed.text == "héllo 👩‍👩‍👧 안녕"
        assert list(response.answers[0].token_ids) == streamed.token_ids
        assert response.answers[0].finished.reason == api.FINISH_REASON_STOP_TOKEN


async def test_logprobs_come_with_their_tokens():
    """Prompt logprobs are in the first message, one for each prompt token; the others beside their tokens."""
    async with bench() as made:

        async def script(session, submit):
            rows = logprob_rows(submit.handle, [(1, -0.5, 2, [(7, -0.25)]), (2, -1.5, 1, [])])
            await session.tokens(submit, [], prompt_logprobs=rows)
            row = logprob_rows(submit.handle, [(3, -2.0, 1, [(8, -2.0), (9, -3.0)])])
            await session.tokens(submit, [8], logprobs=row)
            row = logprob_rows(submit.handle, [(4, -4.0, 3, [(6, -1.0)])])
            await session.tokens(submit, [9], logprobs=row)
            await session.finish(submit, FinishCause.LENGTH)

        made.scheduler.script = script
        heard = await made.client.generate(of_ids(4, 5, 6, max_tokens=2, output={"logprobs": 2, "prompt_logprobs": 1}))
        prompt = heard.messages[0].delta.prompt_logprobs
        assert [row.token_id for row in prompt] == [4, 5, 6]
        assert not prompt[0].HasField("logprob")
        assert (prompt[1].logprob, prompt[1].rank, prompt[1].top[0].token_id) == (-0.5, 2, 7)
        rows = [row for message in heard.messages for row in message.delta.logprobs]
        assert [(row.token_id, row.logprob, row.rank) for row in rows] == [(8, -2.0, 1), (9, -4.0, 3)]
        assert [top.token_id for top in rows[0].top] == [8, 9]


async def test_a_prompt_can_be_scored_alone():
    """max_tokens 0 with prompt logprobs gives the prompt's logprobs and no token."""
    async with bench() as made:

        async def script(session, submit):
            await session.tokens(submit, [], prompt_logprobs=logprob_rows(submit.handle, [(1, -1.0, 1, [])]))
            await session.finish(submit, FinishCause.LENGTH)

        made.scheduler.script = script
        heard = await made.client.generate(of_ids(4, 5, max_tokens=0, output={"prompt_logprobs": 0}))
        assert [row.token_id for row in heard.messages[0].delta.prompt_logprobs] == [4, 5]
        assert heard.token_ids == []
        assert heard.finished.reason == api.FINISH_REASON_LENGTH
        assert made.scheduler.submits[0].max_tokens == 0


async def test_a_resumed_answer_goes_on():
    """A resumed answer sends only what follows, and counts what was resumed."""
    async with bench() as made:
        resume = api.Resume(token_ids=ids_of("abc"), seed=5, fingerprint=FINGERPRINT)
        heard = await made.client.generate(request(max_tokens=6, resume=resume))
        assert (heard.text, heard.token_ids) == ("def", ids_of("def"))
        assert heard.started.seed == made.scheduler.submits[0].seed == 5
        assert heard.finished.usage.completion_tokens == 6
        assert made.scheduler.submits[0].accepted_count == 3
        assert not made.scheduler.submits[0].resubmitted


@pytest.mark.parametrize(
    ("text", "ids", "stop", "reason"),
    [
        ("length", ids_of("abcd"), {}, api.FINISH_REASON_LENGTH),
        ("stop token", [*ids_of("ab"), END], {}, api.FINISH_REASON_STOP_TOKEN),
        ("stop string", ids_of("abc"), {"strings": ["bc"]}, api.FINISH_REASON_STOP_STRING),
    ],
)
async def test_a_resumed_answer_that_is_complete_ends_at_once(text, ids, stop, reason):
    """An answer whose last message alone was lost ends when it is resumed, without a scheduler."""
    async with bench() as made:
        resume = api.Resume(token_ids=ids, seed=5, fingerprint=FINGERPRINT)
        heard = await made.client.generate(request(text, max_tokens=4, stop=stop, resume=resume))
        assert (heard.text, heard.token_ids) == ("", [])
        assert heard.finished.reason == reason
        assert heard.finished.usage.completion_tokens == len(ids)
        assert made.scheduler.submits == []


async def test_tokenize_detokenize_and_get_model():
    """The unary methods speak of the served model."""
    async with bench() as made:
        stub = made.client.stub
        parts = api.PartsPrompt(parts=[api.Part(text="héy")])
        tokens = await stub.Tokenize(api.TokenizeRequest(parts=parts))
        assert list(tokens.token_ids) == ids_of("héy")
        text = await stub.Detokenize(api.DetokenizeRequest(token_ids=[*tokens.token_ids, END]))
        assert text.text == "héy"
        request_with_specials = api.DetokenizeRequest(token_ids=[END], skip_special_tokens=False)
        assert (await stub.Detokenize(request_with_specials)).text == "<end>"
        model = await stub.GetModel(api.GetModelRequest())
        assert (model.name, list(model.served_models), model.fingerprint) == (MODEL, [MODEL], FINGERPRINT)
        limits = model.limits
        assert (limits.context_length, limits.vocab_size, limits.max_request_tokens) == (4096, 300, 1024)
        assert (limits.max_n, limits.max_stop_strings, limits.block_size) == (16, 16, 16)
        assert model.has_chat_template
        assert list(model.eos_token_ids) == [END]
