"""What text must be on every model: the same however it is asked for, and rendered the same in every turn."""


def three_ways(client, prompt, **params):
    """The answer as a stream, proven equal to the unary one; (text, tokens, finished)."""
    stream = client.generate(prompt, **params)
    deltas = list(stream)
    streamed = "".join(delta.text for delta in deltas)
    token_ids = [token_id for delta in deltas for token_id in delta.token_ids]
    whole = client.complete(prompt, **params)
    assert streamed == stream.text == whole.text
    assert tuple(token_ids) == whole.token_ids
    for finished in (deltas[-1].finished, whole.finished):
        assert finished.usage.completion_tokens == len(token_ids)
        assert finished.reason == whole.finished.reason
    return streamed, token_ids, whole.finished


def converse(client, system, turns):
    """Each of the turns (text, parameters) renders what was said before to the tokens that it had, and finds them cached."""
    chat = client.chat(system=system)
    before = []
    for turn, (said, params) in enumerate(turns):
        deltas = list(chat.send(said, **params))
        usage = deltas[-1].finished.usage
        rendered = client.tokenize([*chat.messages], add_generation_prompt=False)
        assert rendered[: len(before)] == before, f"turn {turn} renders its history otherwise"
        if turn:
            assert usage.cached_tokens >= (len(before) - 16) // 16 * 16, f"turn {turn} hits only {usage.cached_tokens}"
        before = rendered
