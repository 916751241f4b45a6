"""`headway chat`: a conversation in the terminal."""

from headway.client import DEFAULT_ADDRESS, HeadwayError

from services.cli.console import err, fail, stream_text
from services.cli.options import DEFAULT_SAMPLING, SamplingOptions, connect
from services.cli.timing import StreamTiming, summary


def chat(
    *,
    address: str = DEFAULT_ADDRESS,
    system: str | None = None,
    sampling: SamplingOptions = DEFAULT_SAMPLING,
) -> None:
    """Talk with the model. Ctrl-C stops an answer, Ctrl-D ends.

    Args:
        address: Address of the server, host:port or unix:PATH.
        system: Tells the model who it is.
        sampling: How the answer is drawn.
    """
    with connect(address) as client:
        model = client.model(sampling.model, timeout_s=10)
        err.print(f"{model.name}. Ctrl-C stops an answer, Ctrl-D ends.", style="dim")
        conversation = client.chat(system)
        client.generate(
            "", **sampling.params()
        ).cancel()  # nothing is sent: a flag that cannot be ends here, not each turn
        while True:
            try:
                said = input("> ")
            except (EOFError, KeyboardInterrupt):
                stream_text("\n")
                return
            if not said.strip():
                continue
            timing = StreamTiming()
            try:
                for delta in timing.observe(conversation.send(said, timeout_s=sampling.timeout_s, **sampling.params())):
                    stream_text(delta.text)
            except KeyboardInterrupt:
                stream_text(" [stopped]")
            except HeadwayError as error:
                fail(str(error))
                continue
            stream_text("\n")
            err.print(summary(timing), style="dim")
