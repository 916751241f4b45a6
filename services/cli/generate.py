"""`headway generate`: streams the answer to one prompt."""

import sys
from typing import Annotated

from cyclopts import Parameter
from headway.client import DEFAULT_ADDRESS

from services.cli.console import Failed, err, stream_text
from services.cli.options import DEFAULT_SAMPLING, SamplingOptions, connect
from services.cli.timing import StreamTiming, summary


def generate(
    prompt: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    address: str = DEFAULT_ADDRESS,
    raw: bool = False,
    stats: bool = False,
    sampling: SamplingOptions = DEFAULT_SAMPLING,
) -> None:
    """Stream the answer to one prompt.

    Args:
        address: Address of the server, host:port or unix:PATH.
        prompt: What to say to the model; "-" reads it from standard input.
        raw: Continue the prompt as plain text, without the model's chat template.
        stats: Print TTFT, TBT and tokens/s to standard error at the end.
        sampling: How the answer is drawn.
    """
    text = read_input() if prompt == "-" else prompt
    with connect(address) as client:
        said = text if raw else [{"role": "user", "content": text}]
        timing = StreamTiming()
        with client.generate(said, timeout_s=sampling.timeout_s, **sampling.params()) as stream:
            for delta in timing.observe(stream):
                stream_text(delta.text)
    stream_text("\n")
    if stats:
        err.print(summary(timing))


def read_input() -> str:
    """All of standard input. Raises `Failed` where it is not UTF-8."""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise Failed(f"standard input is not UTF-8: byte {error.start} cannot be read") from None
