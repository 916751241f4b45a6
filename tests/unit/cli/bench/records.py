"""Records as tests need them."""

from services.cli.bench.result import Record, Run


def record(index=0, *, intended_s=0.0, sent_s=0.0, messages=((1.0, 1), (2.0, 1)), status="ok", **fields):
    """A request that was answered in `messages` of (time, tokens)."""
    made = Record(index=index, intended_s=intended_s, sent_s=sent_s, status=status, input_tokens=10)
    made.message_s = [at_s for at_s, _ in messages]
    made.message_tokens = [count for _, count in messages]
    made.output_tokens = made.asked_tokens = sum(made.message_tokens)
    made.end_s = made.message_s[-1] if messages else sent_s
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def run(*records, duration_s=10.0, repeat=0):
    return Run(repeat=repeat, seed=0, duration_s=duration_s, records=list(records))


def run_of_ttfts(*ttfts_s, failed=0, duration_s=10.0):
    """A run of requests with these times to the first token, one second per token after it, and so many failures."""
    answered = [record(n, messages=((s, 1), (s + 1, 1))) for n, s in enumerate(ttfts_s)]
    lost = [record(len(answered) + n, messages=(), status="failed", error="gone") for n in range(failed)]
    return run(*answered, *lost, duration_s=duration_s)
