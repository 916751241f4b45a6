"""Files that other processes wait for."""

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
