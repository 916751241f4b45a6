"""CURVE key files: written closed, read back, and refused with a reason."""

import re

import pytest

from services.runtime.curve import generate_keys, read_keys, write_keys
from services.runtime.lifecycle import BadSetting


def test_keys_survive_the_file(tmp_path):
    """What is written is read back, from a file that only its owner can open."""
    keys = generate_keys()
    path = tmp_path / "keys"
    write_keys(path, keys)
    assert read_keys(str(path)) == keys
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_keys(path, keys)


def test_no_path_means_no_keys():
    """An empty setting is no key file."""
    assert read_keys("") is None


def test_a_file_open_to_others_is_refused(tmp_path):
    """A secret that the group can read is no secret."""
    path = tmp_path / "keys"
    write_keys(path, generate_keys())
    path.chmod(0o640)
    with pytest.raises(BadSetting, match="0600"):
        read_keys(str(path))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must hold"),
        ("server_public = abc\n", "must hold"),
        ("server_public = a\nserver_secret = b\nclient_public = c\nclient_secret = d\n", "40 characters"),
        ("\u00e9", "cannot read"),
    ],
)
def test_an_incomplete_file_is_refused(tmp_path, text, why):
    """A file that does not hold the four keys ends in the reason."""
    path = tmp_path / "keys"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(BadSetting, match=re.escape(why)):
        read_keys(str(path))


def test_a_missing_file_is_refused(tmp_path):
    """A path to nothing is a bad setting, not a traceback."""
    with pytest.raises(BadSetting, match="cannot read"):
        read_keys(str(tmp_path / "none"))
