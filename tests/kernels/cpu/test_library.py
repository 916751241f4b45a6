"""Loading the library: levels forced by the environment, and what is said where it cannot be used."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from kernels.cpu import build
from kernels.cpu import library as library_module
from kernels.cpu.library import LibraryMissing, load, why_missing
from tests.kernels.cpu.conftest import levels_here

ROOT = Path(__file__).parents[3]
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
    """The text says what to install and what to run."""
    unloaded.setattr(library_module, "LIBRARY", tmp_path / "none.so")
    assert f"install a C++ compiler, then run {sys.executable} -m kernels.cpu.build" in why_missing()
    with pytest.raises(LibraryMissing):
        load()


def test_a_library_of_another_machine_is_said(unloaded, tmp_path):
    """A file that the loader refuses is no crash; one of these very sources would not be built again while it is there."""
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"\x7fELF of another machine")
    unloaded.setattr(library_module, "LIBRARY", broken)
    reason = why_missing()
    assert str(broken) in reason
    assert "delete that file and run" in reason


OTHER_SOURCES = f"they are of other sources; run {sys.executable} -m kernels.cpu.build"


def test_a_library_without_a_function_is_said(unloaded):
    """A function that it does not have is no crash: the text says how to build it anew."""
    unloaded.setitem(library_module._SIGNATURES, "headway_of_tomorrow", (None, []))
    assert OTHER_SOURCES in why_missing()


def test_a_library_of_other_sources_is_said(unloaded, tmp_path):
    """All functions may be there and take other structures than Python passes: what the sources say is compared."""
    changed = tmp_path / "ops.h"
    changed.write_text((build.FOLDER / "ops.h").read_text() + "// changed\n")
    sources = [changed if source.name == "ops.h" else source for source in build.sources()]
    unloaded.setattr(build, "sources", lambda: sources)
    assert OTHER_SOURCES in why_missing()


def test_a_library_without_its_sources_is_taken_at_its_word(unloaded, tmp_path):
    """A package may be installed without them: then there is nothing to compare."""
    unloaded.setattr(build, "FOLDER", tmp_path)
    assert not build.has_sources()
    assert why_missing() == ""


def test_without_a_library_its_tests_are_skipped_and_say_why():
    """They are collected, in this folder as in any other, and not one of them stops the others from running."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tests = ["tests/kernels/cpu/test_kv.py", "tests/kernels/cpu/test_library.py", "tests/unit/executor/test_blocks.py"]
    environment = os.environ | {"HEADWAY_CPU_LEVEL": "sse9"}
    done = subprocess.run([*command, *tests], cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SKIPPED" in done.stdout
    assert "HEADWAY_CPU_LEVEL must name one of" in done.stdout
    assert "passed" in done.stdout
    assert "failed" not in done.stdout


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_is_given_when_it_is_asked_for():
    """All pages of an array are there at once, and what some of them hold stays."""
    array = np.empty(48 << 20, np.uint8)
    array[:: 5 << 20] = 7
    before = resident_bytes()
    given = []
    thread = threading.Thread(target=lambda: given.append(load().populate(array)))  # it goes behind all others for good
    thread.start()
    thread.join()
    if not given[0]:
        pytest.skip("this system gives memory only as it is first written")
    assert resident_bytes() - before >= 24 << 20  # where pages are huge, a part of them was there before
    assert (array[:: 5 << 20] == 7).all()
