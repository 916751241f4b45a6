"""The asynchronous face: off the event loop, bounded, and safe to cancel."""

import asyncio
import threading

import pytest
from headway.v1 import inference_pb2 as pb

from services.router.text.errors import InvalidPrompt, TextBusy, UnusableModel
from services.router.text.text_model import TextModel, TextSettings
from services.wire.message import int32_column
from tests.unit.router.text import models


def text(words):
    return pb.PartsPrompt(parts=[pb.Part(text=words)])


@pytest.fixture
def model():
    made = TextModel(models.card(), TextSettings(threads=1, max_pending=3))
    yield made
    made.close()


@pytest.fixture
def gate(model, monkeypatch):
    """Holds every prompt in its thread until it is set."""
    opened, render = threading.Event(), model._renderer.render

    def held(prompt):
        opened.wait(10)
        return render(prompt)

    monkeypatch.setattr(model._renderer, "render", held)
    yield opened
    opened.set()


async def test_text_goes_to_tokens_and_back():
    """What is rendered is given back by detokenize and by an answer."""
    model = await TextModel.load(models.card())
    token_ids = await model.render(text("hello 안녕 🙂"))
    assert token_ids.dtype.name == "int32"
    assert await model.detokenize(token_ids.tolist()) == "hello 안녕 🙂"
    answer = model.answer(model.stop_rules())
    assert answer.push(token_ids.tolist()).text + answer.finish().text == "hello 안녕 🙂"
    assert model.has_chat_template
    model.close()


async def test_the_loop_goes_on_while_prompts_wait(model, gate):
    """A prompt in work holds up nobody but itself."""
    waiting = asyncio.create_task(model.render(text("hello")))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    gate.set()
    assert len(await waiting) > 0


async def test_more_prompts_than_places_are_refused_at_once(model, gate):
    """The fourth of three is told to come again; the three are answered, and then there is room."""
    tasks = [asyncio.create_task(model.render(text("hello"))) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(TextBusy):
        await model.render(text("hello"))
    gate.set()
    await asyncio.gather(*tasks)
    await model.render(text("hello"))


async def test_a_cancelled_prompt_gives_its_place_back(model, gate):
    """One that waits never runs; one in work ends unheard; both places are free again."""
    tasks = [asyncio.create_task(model.render(text("hello"))) for _ in range(3)]
    await asyncio.sleep(0.02)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks)
    gate.set()
    results = await asyncio.gather(*(model.render(text("hello")) for _ in range(2)))
    assert len(results) == 2
    for _ in range(100):
        if model._places._value == 3:
            break
        await asyncio.sleep(0.01)
    assert model._places._value == 3


async def test_errors_come_through_and_free_their_place(model):
    """A refused prompt leaves nothing behind."""
    for _ in range(5):
        with pytest.raises(InvalidPrompt):
            await model.render(text(""))
        with pytest.raises(InvalidPrompt) as caught:
            await model.detokenize([1, 5000])
        assert caught.value.field == "token_ids[1]"


@pytest.mark.parametrize("template", ["{% if %}", "{{ raise_exception('no') }}", "{{ 'x'.ljust(10 ** 10) }}"])
async def test_a_bad_template_leaves_a_model_without_chat(template):
    """The model serves parts, says why it serves no chat, and refuses chats to their senders."""
    model = await TextModel.load(models.card(template=template))
    assert not model.has_chat_template
    assert model.chat_fault
    await model.render(text("hello"))
    with pytest.raises(InvalidPrompt):
        await model.render(pb.ChatPrompt(messages=[pb.ChatMessage(role="user", content=[pb.Part(text="x")])]))
    model.close()


async def test_no_template_is_no_fault():
    """A base model has none."""
    model = await TextModel.load(models.card(template=""))
    assert (model.has_chat_template, model.chat_fault) == (False, "")
    model.close()


@pytest.mark.parametrize("special_tokens_json", ["{", "[]", pytest.param("[" * 100_000, id="nested without end")])
def test_special_tokens_that_are_no_object_are_refused(special_tokens_json):
    """The card is the model's owner's to mend."""
    with pytest.raises(UnusableModel):
        TextModel(models.card(special_tokens_json=special_tokens_json))


def test_the_end_of_sequence_ends_an_answer_unless_it_is_ignored(model):
    """Stop rules join the model's own end with the request's."""
    assert model.stop_rules(token_ids=[7]).token_ids == {2, 7}
    assert model.stop_rules(token_ids=[7], ignore_eos=True).token_ids == {7}
    assert model.answer(model.stop_rules()).push([2]).stop_token_id == 2


async def test_a_prompt_longer_than_the_context_is_refused():
    """The card's context bounds the prompt."""
    model = await TextModel.load(models.card(context_length=8, eos_ids=int32_column([])))
    with pytest.raises(InvalidPrompt, match="8"):
        await model.render(text("hello there " * 20))
    model.close()
