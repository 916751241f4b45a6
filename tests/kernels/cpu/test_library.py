"""Loading the library: levels forced by the environment, and what is said where it cannot be used."""

import os
import subprocess
import sys

import pytest

from kernels.cpu import library as library_module
from kernels.cpu.library import LibraryMissing, load, why_missing
from tests.kernels.cpu.conftest import levels_here

SHOW_LEVEL = "from kernels.cpu.library import load; print(load().level)"
SHOW_REASON = "from kernels.cpu.library import why_missing; print(why_missing())"


def python(code, level):
    environment = os.environ | {"HEADWAY_CPU_LEVEL": level}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


@pytest.mark.parametrize("level", levels_here())
def test_the_environment_forces_a_level(level):
    """HEADWAY_CPU_LEVEL takes the place of the best level."""
    assert python(SHOW_LEVEL, level) == level


def test_the_best_level_is_taken_by_default():
    """Without the variable, or with an empty one, the first level that is here."""
    assert python(SHOW_LEVEL, "") == levels_here()[0]


@pytest.mark.parametrize("level", ["avx1024", "AVX2", "portable "])
def test_a_level_that_is_not_here_is_said(level):
    """A wrong name is no reason to take another level: the library cannot be used, and the text names the variable."""
    assert "HEADWAY_CPU_LEVEL must name one of avx512, avx2 and portable" in python(SHOW_REASON, level)


def test_another_level_can_be_chosen_while_nothing_is_computed(library):
    """A level that is not here is refused and leaves the one in use."""
    level = library.level
    with pytest.raises(ValueError, match="sse9"):
        library.use_level("sse9")
    assert library.level == level
    assert len(library.version) > 16


@pytest.fixture
def unloaded(monkeypatch):
    """As in a process that has not loaded the library."""
    load.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    load.cache_clear()


def test_a_library_that_was_not_built_is_said(unloaded, tmp_path):
    """The text says what to install."""
    unloaded.setattr(library_module, "LIBRARY", tmp_path / "none.so")
    assert "install a C++ compiler" in why_missing()
    with pytest.raises(LibraryMissing):
        load()


def test_a_library_of_another_machine_is_said(unloaded, tmp_path):
    """A file that the loader refuses is no crash."""
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"\x7fELF of another machine")
    unloaded.setattr(library_module, "LIBRARY", broken)
    assert "install the package again" in why_missing()


def test_a_library_of_other_sources_is_said(unloaded):
    """A function that it does not have is no crash: the text says how to build it anew."""
    unloaded.setitem(library_module._SIGNATURES, "headway_of_tomorrow", (None, []))
    assert "python -m kernels.cpu.build" in why_missing()


def test_nothing_is_missing_here():
    """The library that these tests run was built and loads."""
    assert why_missing() == ""
