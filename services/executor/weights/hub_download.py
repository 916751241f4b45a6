"""Downloads what a model needs of one commit of a hub: safetensors and JSON only, resumed where it broke off, checked."""

import hashlib
import os
import shutil
import time
import urllib.parse
from collections.abc import Callable, Iterable
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from services.executor.weights import hf_model
from services.executor.weights.errors import ChecksumMismatch, FetchFailed, MalformedModel, ModelNotFound
from services.executor.weights.hub import HubCommit, HubFile
from services.executor.weights.hub_http import open_url, reason_of
from services.executor.weights.json_file import MAX_TOKENIZER_BYTES, read_object

Progress = Callable[[int, int], None]  # bytes done, bytes in all

ATTEMPTS_WITHOUT_PROGRESS = 5
RETRY_DELAY_S = 0.5  # doubled with each attempt without progress
_CHUNK_BYTES = 1 << 18
_MAX_WEIGHTS_BYTES = 1 << 42
_PART = ".part"
_OK, _PARTIAL = 200, 206


def download(commit: HubCommit, directory: Path, progress: Progress) -> None:
    """Brings what a model needs of `commit` into `directory`; parts that are there already are not fetched again.

    Raises:
        FetchFailed: the connection broke too often, or the hub refused.
        ChecksumMismatch: a file is not what the hub promised.
    """
    directory.mkdir(parents=True, exist_ok=True)
    side = [commit.files[name] for name in hf_model.SIDE_FILES if name in commit.files]
    index = commit.files.get(hf_model.WEIGHTS_INDEX)
    fetch = _Fetch(commit, directory, progress)
    fetch.run([*side, *([index] if index else [])], MAX_TOKENIZER_BYTES)
    fetch.run(_weights(commit, directory), _MAX_WEIGHTS_BYTES)


def _weights(commit: HubCommit, directory: Path) -> list[HubFile]:
    names = [hf_model.WEIGHTS]
    if hf_model.WEIGHTS_INDEX in commit.files:
        names = hf_model.shard_names(read_object(directory / hf_model.WEIGHTS_INDEX, MAX_TOKENIZER_BYTES))
    missing = [name for name in names if name not in commit.files]
    if missing:
        raise ModelNotFound(
            f"{commit.repository} has no {missing[0]}: Headway loads safetensors and never pickle (.bin) files; choose a "
            "model that has them"
        )
    return [commit.files[name] for name in names]


class _Fetch:
    """The download of one commit into one directory; counts bytes over all files."""

    def __init__(self, commit: HubCommit, directory: Path, progress: Progress) -> None:
        self._commit = commit
        self._directory = directory
        self._progress = progress
        self._done = 0
        self._total = 0

    def run(self, files: Iterable[HubFile], most_each: int) -> None:
        files = list(files)
        for file in files:
            if file.num_bytes > most_each:
                raise MalformedModel(f"{file.name} has {file.num_bytes} bytes; at most {most_each} are allowed")
        self._total += sum(file.num_bytes for file in files)
        left = sum(file.num_bytes - self._on_disk(file) for file in files)
        free = shutil.disk_usage(self._directory).free
        if left > free:
            raise FetchFailed(f"{left} bytes are still to be fetched, but only {free} are free in the cache directory")
        for file in files:
            self._bring(file)

    def _on_disk(self, file: HubFile) -> int:
        for path in (self._directory / file.name, self._directory / (file.name + _PART)):
            if path.is_file():
                return min(path.stat().st_size, file.num_bytes)
        return 0

    def _bring(self, file: HubFile) -> None:
        target = self._directory / file.name
        base = self._done
        if not target.is_file() or target.stat().st_size != file.num_bytes:
            part = self._directory / (file.name + _PART)
            self._fill(part, file)
            if not _is_genuine(part, file):
                part.unlink()
                raise ChecksumMismatch(f"{file.name} is not what the hub promised; fetch it again")
            part.replace(target)
        self._done = base + file.num_bytes
        self._progress(self._done, self._total)

    def _fill(self, part: Path, file: HubFile) -> None:
        """Asks again from where it broke off, as long as that brings something."""
        part.touch()
        failures = 0
        while (have := part.stat().st_size) != file.num_bytes:
            if have > file.num_bytes:
                os.truncate(part, 0)
                continue
            try:
                self._stream(part, file, have)
            except (OSError, HTTPException) as error:
                why = reason_of(error)
            else:
                why = "the connection ended early"
            if part.stat().st_size > have:
                failures = 0
            elif part.stat().st_size != file.num_bytes:
                failures += 1
                if failures >= ATTEMPTS_WITHOUT_PROGRESS:
                    raise FetchFailed(f"{file.name} could not be fetched ({why}); run it again to go on from here")
                time.sleep(RETRY_DELAY_S * 2**failures)

    def _stream(self, part: Path, file: HubFile, have: int) -> None:
        path = f"/{self._commit.repository}/resolve/{self._commit.commit}/{urllib.parse.quote(file.name)}"
        headers = {"Range": f"bytes={have}-"} if have else {}
        with open_url(path, self._commit.repository, headers) as response:
            if have and not _continues(response, have):
                os.truncate(part, 0)  # the server sends all of it, or something else
                have = 0
                if response.status != _OK:
                    return
            with part.open("ab") as output:
                while have < file.num_bytes and (chunk := response.read(min(_CHUNK_BYTES, file.num_bytes - have))):
                    output.write(chunk)
                    have += len(chunk)
                    self._progress(self._done + have, self._total)


def _continues(response: HTTPResponse, have: int) -> bool:
    return response.status == _PARTIAL and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")


def _is_genuine(path: Path, file: HubFile) -> bool:
    # The git SHA-1 of small text files is what the hub offers; it guards against accidents, the connection's TLS against others.
    digest = hashlib.sha256() if file.sha256 else hashlib.sha1(b"blob %d\0" % file.num_bytes, usedforsecurity=False)
    with path.open("rb") as source:
        while chunk := source.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest() == (file.sha256 or file.git_sha1)
