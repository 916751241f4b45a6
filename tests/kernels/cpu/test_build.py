"""The build: which compiler, when it runs, and what is left where it fails."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.cpu import build
from kernels.cpu.library import why_missing

ROOT = Path(__file__).parents[3]
NO_COMPILER = os.environ | {"CXX": "no-such-compiler"}


@pytest.fixture(autouse=True)
def _needs_the_library():
    """Nothing here does."""


def fake_compiler(folder, script):
    path = folder / "fake-c++"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_the_environment_names_the_compiler(monkeypatch, tmp_path):
    """$CXX wins, with its arguments."""
    compiler = fake_compiler(tmp_path, "exit 0")
    monkeypatch.setenv("CXX", f"{compiler} --some-flag")
    assert build.compiler() == [compiler, "--some-flag"]


def test_no_compiler_is_said(monkeypatch, tmp_path):
    """Neither the one asked for nor any other is there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(build.CompilerMissing, match="no-such-compiler"):
        build.build(tmp_path / "library.so")
    monkeypatch.delenv("CXX")
    with pytest.raises(build.CompilerMissing, match=r"c\+\+, g\+\+, clang\+\+"):
        build.compiler()


def test_a_compiler_that_fails_leaves_nothing(monkeypatch, tmp_path):
    """Its words are in the error, and neither a library nor its folder of objects remains."""
    monkeypatch.setenv("CXX", fake_compiler(tmp_path, "echo 'too old' >&2; exit 1"))
    with pytest.raises(build.CompileFailed, match="too old"):
        build.build(tmp_path / "out" / "library.so")
    assert not list((tmp_path / "out").iterdir())


def test_a_build_calls_the_compiler_once_a_source(monkeypatch, tmp_path):
    """Each .cpp file, then one link; only the levels' files get their flags, the version only the one that tells it."""
    calls = tmp_path / "calls"
    script = f'echo "$@" >> {calls}; while [ $# -gt 1 ]; do shift; done; touch "$1"'
    monkeypatch.setenv("CXX", fake_compiler(tmp_path, script))
    monkeypatch.setattr(build.platform, "machine", lambda: "x86_64")
    build.build(tmp_path / "library.so")
    assert (tmp_path / "library.so").exists()
    compiled = [line for line in calls.read_text().splitlines() if " -c " in line]
    assert len(compiled) == len([source for source in build.sources() if source.suffix == ".cpp"])
    assert [line for line in compiled if "-mavx2" in line] == [line for line in compiled if "level_avx2.cpp" in line]
    assert [line for line in compiled if "-mavx512bf16" in line] == [line for line in compiled if "avx512.cpp" in line]
    assert [build.version() in line for line in compiled].count(True) == 1


def test_other_machines_get_no_flags_of_x86(monkeypatch, tmp_path):
    """Elsewhere the levels' files compile to nothing, and the portable level serves."""
    calls = tmp_path / "calls"
    script = f'echo "$@" >> {calls}; while [ $# -gt 1 ]; do shift; done; touch "$1"'
    monkeypatch.setenv("CXX", fake_compiler(tmp_path, script))
    monkeypatch.setattr(build.platform, "machine", lambda: "aarch64")
    build.build(tmp_path / "library.so")
    assert "-mavx" not in calls.read_text()


def test_a_level_without_its_flags_compiles_to_nothing(tmp_path):
    """The compiler that knows no AVX gives an empty level, not an error."""
    command = build.compiler()
    target = tmp_path / "empty.o"
    source = build.FOLDER / "level_avx2.cpp"
    build.call([*command, *build.COMPILE_FLAGS, "-c", str(source), "-o", str(target)])
    assert target.stat().st_size < 10_000


@pytest.fixture
def stale_library(monkeypatch, tmp_path):
    """The library of other sources, where `python -m kernels.cpu.build` looks for it."""
    library = tmp_path / "library.so"
    library.write_bytes(b"\x7fELF of other sources")
    monkeypatch.setattr(build, "LIBRARY", library)
    monkeypatch.setattr(build.is_current, "__defaults__", (library,))
    monkeypatch.setattr(build.build, "__defaults__", (library, ()))
    return library


def test_the_library_is_current_while_its_sources_say_the_same(monkeypatch, tmp_path):
    """What they say is compared, not when they were written: files that are copied or checked out have any time."""
    source, library = tmp_path / "a.cpp", tmp_path / "library.so"
    monkeypatch.setattr(build, "sources", lambda: [source])
    source.write_text("int a;")
    assert not build.is_current(library)
    library.write_bytes(b"code" + build.version().encode() + b" 12.2.0")
    os.utime(library, (0, 0))
    assert build.is_current(library)
    source.write_text("long a;")
    os.utime(source, (0, 0))
    assert not build.is_current(library)


def test_a_source_that_changes_while_it_is_compiled_makes_another_version(monkeypatch, tmp_path):
    """The library then holds the version from before, so that nobody takes it for one of the sources as they are now."""
    source, calls = tmp_path / "runtime_api.cpp", tmp_path / "calls"
    source.write_text("int a;")
    monkeypatch.setattr(build, "sources", lambda: [tmp_path / "early.cpp", source])
    (tmp_path / "early.cpp").write_text("int b;")
    before = build.version()
    compiler = fake_compiler(tmp_path, f'echo "$@" >> {calls}; echo "long a;" > {source}')
    build.compile_all([compiler], tmp_path)
    assert before in calls.read_text().splitlines()[-1]
    assert build.version() != before


def test_the_command_does_nothing_when_all_is_current(monkeypatch, capsys):
    """`python -m kernels.cpu.build` needs no compiler then, and says nothing."""
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(build, "is_current", lambda: True)
    assert build.main() == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("script", [None, "echo broken >&2; exit 1"])
def test_the_command_says_why_nothing_was_built(monkeypatch, tmp_path, capsys, stale_library, script):
    """Without a compiler, and with one that fails, it ends with 1, and no library of other sources is left."""
    monkeypatch.setenv("CXX", fake_compiler(tmp_path, script) if script else "no-such-compiler")
    assert build.main() == 1
    assert ("broken" if script else "no-such-compiler") in capsys.readouterr().err
    assert not stale_library.exists()


def test_a_build_that_fails_leaves_a_library_of_these_sources(monkeypatch, stale_library):
    """Who builds again for the sake of a compiler that is not there loses nothing."""
    stale_library.write_bytes(build.version().encode())
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(build.CompilerMissing):
        build.build()
    assert stale_library.exists()


def test_an_installation_without_a_compiler_leaves_no_library_of_other_sources(tmp_path):
    """An editable one, too, whose library stands among the sources: setuptools itself would leave it there."""
    pytest.importorskip("setuptools")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels")
    library = tmp_path / "kernels" / "cpu" / build.LIBRARY.name
    library.write_bytes(b"\x7fELF of other sources")
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=tmp_path, env=NO_COMPILER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no-such-compiler" in done.stderr
    assert not library.exists()


def fake_venv(folder, build_code):
    """In which everything is installed; the build of the kernels ends with this code."""
    folder.mkdir()
    (folder / "serve.stamp").touch()
    (folder / "bin").mkdir()
    scripts = {
        "pip": "",
        "python": f'case "$*" in *kernels.cpu.build) exit {build_code};; esac',
        "headway": "echo serving",
    }
    for name, script in scripts.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / "bin" / name).chmod(0o755)
    return folder


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.parametrize("code", [0, 1])
def test_make_builds_again_until_it_has_a_library(tmp_path, code):
    """Where nothing was built, `make serve` serves all the same, and tries again next time: by then there is a compiler."""
    venv = fake_venv(tmp_path / "venv", code)
    told = []
    for _ in range(2):
        command = ["make", "--no-print-directory", "serve", f"VENV={venv}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "serving"
        told.append("compiling" in done.stdout)
    assert told == [True, code == 1]
    assert (venv / "kernels.stamp").exists() == (code == 0)


def test_where_there_is_a_compiler_there_is_a_library():
    """It was built and loads: what tests the kernels is skipped without it, and that must not go unseen."""
    try:
        build.compiler()
    except build.CompilerMissing as missing:
        pytest.skip(str(missing))
    assert why_missing() == ""
