"""What commands print with: results on standard output, everything else on standard error."""

import sys

from rich.console import Console

_PIPE_COLUMNS = 1000  # through a pipe no table is cut to the width of a terminal

out = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_COLUMNS)
err = Console(stderr=True, highlight=False)


class Failed(Exception):
    """A command that could not do what was asked; its words are for the user."""


def fail(reason: str) -> None:
    """Says why a command failed."""
    err.print(f"headway: {reason}", style="red", markup=False, soft_wrap=True)


def stream_text(text: str) -> None:
    """Prints a piece of an answer at once, as it is."""
    sys.stdout.write(text)
    sys.stdout.flush()


def bytes_in_words(count: float) -> str:
    """1234567 as "1.2 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
