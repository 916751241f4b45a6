"""The environments of peers: made from a recipe, or the reason why not."""

import json
from dataclasses import asdict, replace

import pytest

from benchmarks.peers.environment import NotInstalled, Recipe, ensure, is_made, python_of, reason_in

RECIPE = Recipe(name="nothing", version="1.0", requirements=())


def test_pips_errors_are_the_reason():
    """Not the notices around them; where pip names no error, what it said last."""
    log = "Collecting x\nERROR: No matching distribution found for x==9\n[notice] A new release of pip is available\n"
    assert reason_in(log) == "ERROR: No matching distribution found for x==9"
    assert reason_in("Collecting x\n\nKilled\n") == "Collecting x Killed"
    assert reason_in("") == "pip said nothing"


def test_an_environment_is_kept_while_its_recipe_stays(tmp_path):
    """A version pinned anew, or a folder left half made, is made again."""
    python = python_of(RECIPE, tmp_path)
    assert not is_made(RECIPE, tmp_path)
    python.parent.mkdir(parents=True)
    python.touch()
    assert not is_made(RECIPE, tmp_path)
    (tmp_path / "nothing-1.0" / "headway-recipe.json").write_text(json.dumps(asdict(RECIPE)))
    assert is_made(RECIPE, tmp_path)
    assert not is_made(replace(RECIPE, without=("torchvision",)), tmp_path)


def test_what_cannot_be_installed_says_why(tmp_path):
    """In pip's words, with the name of its log; nothing is taken for installed afterwards."""
    recipe = replace(RECIPE, requirements=("./no-such-folder",))
    with pytest.raises(NotInstalled, match=r"no-such-folder.*see nothing-1.0.log"):
        ensure(recipe, tmp_path)
    assert not is_made(recipe, tmp_path)
