"""Logprobs as a client of the public API gets them are those of transformers, for drawn tokens and for prompts."""

import asyncio
from itertools import pairwise

import pytest
import torch
from headway.client import AsyncClient
from tokenizers import Tokenizer

from tests.support.oracle import Oracle
from tests.support.prompts import prompts
from tests.support.served import serve

pytestmark = [pytest.mark.model, pytest.mark.deep, pytest.mark.timeout(600)]

TOP = 4
TOLERANCE = 1e-4
PARAMS = {"max_tokens": 6, "ignore_eos": True, "logprobs": TOP, "prompt_logprobs": TOP, "timeout_s": 300}


def assert_row(given, token_id, right):
    """One row of the API against the right distribution: value, rank, and the best tokens in their order."""
    assert given.token_id == token_id
    assert given.logprob == pytest.approx(right[token_id].item(), abs=TOLERANCE, rel=0)
    # Two logits that lie nearer than the tolerance may change places.
    assert (right > right[token_id] + TOLERANCE).sum() < given.rank <= (right > right[token_id] - TOLERANCE).sum()
    values = [each.logprob for each in given.top]
    assert values == pytest.approx(right.topk(TOP).values.tolist(), abs=TOLERANCE, rel=0)
    assert values == pytest.approx([right[each.token_id].item() for each in given.top], abs=TOLERANCE, rel=0)
    assert len({each.token_id for each in given.top}) == TOP
    assert all(better >= worse for better, worse in pairwise(values))


async def ask(client, prompt, **params):
    """The same request at once and as a stream, which must be equal; (tokens, their rows, the prompt's rows)."""
    whole = await client.complete(prompt, **PARAMS, **params)
    rows, of_prompt = [], []
    async with client.generate(prompt, **PARAMS, **params) as stream:
        async for delta in stream:
            rows += delta.logprobs
            of_prompt += delta.prompt_logprobs
    assert rows == [*whole.answers[0].logprobs]
    assert of_prompt == [*whole.response.prompt_logprobs]
    return list(whole.token_ids), rows, of_prompt


async def test_logprobs_and_prompt_logprobs_are_those_of_transformers(tmp_path, default_model, loaded_default_model):
    """All 24 prompts at once, greedy and at temperature 0.8: within 1e-4, ranks and best tokens included, cached or not."""
    torch.set_num_threads(1)
    asked = prompts(lambda text: Tokenizer.from_str(loaded_default_model.tokenizer_json).encode(text).ids)
    environment = {"HEADWAY_EXECUTOR_DTYPE": "float32"}
    with serve(tmp_path, "--model", str(default_model), environment=environment, fake=False) as served:
        async with AsyncClient(served.address) as client:
            requests = [
                ask(client, prompt, temperature=0.8 * (number % 2), seed=number) for number, prompt in enumerate(asked)
            ]
            answers = await asyncio.gather(*requests)
    oracle = Oracle(loaded_default_model)
    for number, (prompt, (token_ids, rows, of_prompt)) in enumerate(zip(asked, answers, strict=True)):
        right = oracle.distributions([*prompt, *token_ids])
        assert (len(of_prompt), len(rows)) == (len(prompt), len(token_ids)) == (len(prompt), 6)
        assert of_prompt[0].token_id == prompt[0]
        assert not of_prompt[0].HasField("logprob")
        for place, row in enumerate(of_prompt[1:], 1):
            assert_row(row, prompt[place], right[place - 1])
        for place, row in enumerate(rows, len(prompt)):
            assert_row(row, token_ids[place - len(prompt)], right[place - 1])
            assert number % 2 or right[place - 1].max() - right[place - 1][row.token_id] < TOLERANCE
