"""Digests are kept as long as a file is untouched, and no longer."""

import hashlib
import os
from pathlib import Path

import pytest

from services.executor.weights import digests


def test_an_untouched_file_is_read_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time the digest comes from the cache."""
    path = tmp_path / "a"
    path.write_bytes(b"one")
    wanted = hashlib.sha256(b"one").hexdigest()
    assert digests.known_sha256_of(path) == digests.sha256_of(path) == wanted
    monkeypatch.setattr(digests, "sha256_of", lambda _path: "read again")
    assert digests.known_sha256_of(path) == wanted
    assert digests.known_sha256_of(path) == wanted


def test_a_touched_file_is_read_again(tmp_path: Path) -> None:
    """New bytes of the same length and modification time still give a new digest."""
    path = tmp_path / "a"
    path.write_bytes(b"one")
    stat = path.stat()
    digests.known_sha256_of(path)
    path.write_bytes(b"two")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert digests.known_sha256_of(path) == hashlib.sha256(b"two").hexdigest()


@pytest.mark.parametrize("kept", ["", "{", "[]", '{"1:2": 5}', "\x00"])
def test_a_damaged_cache_is_as_good_as_none(tmp_path: Path, cache: Path, kept: str) -> None:
    """Whatever stands in the cache's file, the digest is right, and kept afterwards."""
    cache.mkdir(parents=True)
    (cache / "digests.json").write_text(kept)
    path = tmp_path / "a"
    path.write_bytes(b"one")
    assert digests.known_sha256_of(path) == hashlib.sha256(b"one").hexdigest()
    assert hashlib.sha256(b"one").hexdigest() in (cache / "digests.json").read_text()


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path: Path, cache: Path) -> None:
    """Without a place for the cache the digest is right all the same."""
    cache.parent.mkdir(parents=True)
    cache.write_text("a file in the directory's place")
    path = tmp_path / "a"
    path.write_bytes(b"one")
    assert digests.known_sha256_of(path) == hashlib.sha256(b"one").hexdigest()


def test_the_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An absolute XDG_CACHE_HOME is used, anything else is ~/.cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert digests.cache_dir() == tmp_path / "headway"
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert digests.cache_dir() == Path.home() / ".cache" / "headway"
