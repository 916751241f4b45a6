"""The build: which compiler, when it runs, and what is left where it fails."""

import os

import pytest

from kernels.cpu import build


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


def test_the_library_is_current_until_a_source_changes(monkeypatch, tmp_path):
    """Newer than every source: current. A source that is newer, or no library: not."""
    source, library = tmp_path / "a.cpp", tmp_path / "library.so"
    monkeypatch.setattr(build, "sources", lambda: [source])
    source.touch()
    assert not build.is_current(library)
    library.touch()
    os.utime(source, (1, 1))
    assert build.is_current(library)
    os.utime(library, (0, 0))
    assert not build.is_current(library)


def test_the_command_does_nothing_when_all_is_current(monkeypatch, capsys):
    """`python -m kernels.cpu.build` needs no compiler then, and says nothing."""
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(build, "is_current", lambda: True)
    assert build.main() == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("script", "code"), [(None, 0), ("echo broken >&2; exit 1", 1)])
def test_the_command_says_why_nothing_was_built(monkeypatch, tmp_path, capsys, script, code):
    """No compiler is no failure; one that fails is, and then no library of other sources is left."""
    library = tmp_path / "library.so"
    library.touch()
    monkeypatch.setattr(build, "LIBRARY", library)
    monkeypatch.setattr(build, "is_current", lambda: False)
    monkeypatch.setattr(build.build, "__defaults__", (library, ()))
    monkeypatch.setenv("CXX", fake_compiler(tmp_path, script) if script else "no-such-compiler")
    assert build.main() == code
    said = capsys.readouterr().err
    assert ("broken" if script else "no-such-compiler") in said
    assert library.exists() == (script is None)
