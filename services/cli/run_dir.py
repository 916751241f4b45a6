"""The run directory: a fresh folder for the sockets of one `headway serve`, which no dead one can be in the way of.

It lies below ${XDG_RUNTIME_DIR:-/tmp}/headway-<uid>/, nobody else can enter it, and its owner holds a lock in it for as
long as it lives; whoever makes the next one removes those whose lock is free.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from services.runtime.lifecycle import BadSetting

_MAX_PATH_BYTES = 90  # a unix socket's whole path has room for 107
_LOCK = "lock"


class RunDir:
    """A run directory, from `with` to its end."""

    def __init__(self, base: Path | None = None) -> None:
        self._base = base or default_base()
        self.path = self._base

    def __enter__(self) -> Self:
        _make_private(self._base)
        with _locked(self._base / _LOCK, wait=True):
            _remove_stale(self._base)
            self.path = Path(tempfile.mkdtemp(prefix="run-", dir=self._base))
            self._lock = _locked(self.path / _LOCK, wait=True)
        if len(os.fsencode(self.path)) > _MAX_PATH_BYTES:
            self.__exit__(None, None, None)
            raise BadSetting("XDG_RUNTIME_DIR: its path is too long to hold sockets")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def default_base() -> Path:
    """Where this user's run directories lie."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    parent = Path(runtime) if runtime and os.access(runtime, os.W_OK) else Path("/tmp")  # noqa: S108 - made private below
    return parent / f"headway-{os.getuid()}"


def _make_private(base: Path) -> None:
    base.mkdir(mode=0o700, exist_ok=True)
    state = base.lstat()  # not what a link of someone else's points to
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or stat.S_IMODE(state.st_mode) & 0o077:
        raise BadSetting(
            f"{base} must be a folder of yours that nobody else can enter: remove it, or set XDG_RUNTIME_DIR"
        )


class _Lock:
    """An exclusive lock on a file; the kernel frees it when this process ends, however it ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)


def _locked(path: Path, *, wait: bool) -> _Lock:
    """The lock on `path`. Raises BlockingIOError when another process holds it and `wait` is false."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        raise
    return _Lock(descriptor)


def _remove_stale(base: Path) -> None:
    for path in base.glob("run-*"):
        try:
            lock = _locked(path / _LOCK, wait=False)
        except BlockingIOError:
            continue  # its owner lives
        with lock:
            shutil.rmtree(path, ignore_errors=True)
