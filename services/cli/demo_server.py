"""The server of a demo: what it needs is made sure of, then it runs for as long as the demo does."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from services.cli.console import Failed
from services.runtime.settings import SUPERVISOR_PID

_POLL_S = 0.1


def make_sure(*, fake: bool) -> None:
    """Raises what the server would end with. A model that is not here is fetched now: the server is quiet."""
    from services.cli.preflight import check_installed

    check_installed(fake=fake)
    if not fake:
        from services.cli.models import model_to_serve  # needs more than a fake server

        model_to_serve("")


@contextmanager
def running_server(flags: list[str], environment: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """A server of our own on a free port, ended afterwards; its address. `environment`: beside what is set already."""
    with tempfile.TemporaryDirectory() as folder:
        ready_file, log = Path(folder) / "address", Path(folder) / "log"
        command = [sys.executable, "-P", "-m", "services.cli.main", "serve", "--port", "0"]
        with log.open("wb") as file:
            server = subprocess.Popen(  # noqa: S603 - our own command
                [*command, "--ready-file", str(ready_file), *flags],
                env={**os.environ, **environment, SUPERVISOR_PID: str(os.getpid())},
                process_group=0,
                stdout=subprocess.DEVNULL,  # facts of a server that ends in seconds
                stderr=file,  # what it says would tear the growing answers
            )
        try:
            while not ready_file.exists():
                if (status := server.poll()) is not None:
                    sys.stderr.write(log.read_text())
                    raise Failed(f"the demo's server did not start (exit code {status}); the reason is above")
                time.sleep(_POLL_S)
            yield ready_file.read_text()
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
