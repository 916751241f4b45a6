"""Files that others read while they are written."""

import pytest

from services.runtime.files import write_whole


def test_a_file_appears_whole_in_the_place_of_the_old_one(tmp_path, monkeypatch):
    """Until all of it is written the old text stands; nothing else is left in the folder."""
    path = tmp_path / "address"
    path.write_text("old")
    seen = []
    replace = type(path).replace
    monkeypatch.setattr(type(path), "replace", lambda *paths: (seen.append(path.read_text()), replace(*paths)))
    write_whole(path, "new")
    assert seen == ["old"]
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    """What cannot be written whole changes nothing and leaves nothing behind."""
    path = tmp_path / "list"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\ud800")
    assert (path.read_text(), [each.name for each in tmp_path.iterdir()]) == ("old", ["list"])
