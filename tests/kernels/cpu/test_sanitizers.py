"""The library under the compiler's sanitizers: nothing reads or writes past its buffers, overflows, or races."""

import os
import subprocess
from pathlib import Path

import pytest

from kernels.cpu import build
from tests.kernels.cpu.conftest import levels_here

CHECKS = [Path(__file__).with_name(name) for name in ("check.cpp", "check_rows.cpp", "check_step.cpp")]


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_a_sanitizer_finds_nothing(tmp_path, sanitizers):
    """check.cpp, which drives every operation and whole steps at every level, runs to its end without a report."""
    command = build.compiler()
    flags = ["-O1", "-g", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    objects = build.compile_all(command, tmp_path, flags)
    objects += [build.compile_one(command, check, tmp_path, [*flags, f"-I{build.FOLDER}"]) for check in CHECKS]
    program = tmp_path / "check"
    build.call([*command, "-pthread", *flags, *map(str, objects), "-o", str(program)])
    environment = os.environ | {"TSAN_OPTIONS": "halt_on_error=1", "ASAN_OPTIONS": "detect_leaks=1"}
    done = subprocess.run([program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == levels_here()
    assert not done.stderr


def test_code_of_a_level_stands_in_its_own_namespace(tmp_path):
    """A function that files share must not be kept in a level's instructions: other machines could not run it."""
    command = build.compiler()
    for level in ("avx512", "avx2"):
        compiled = build.compile_one(command, build.FOLDER / f"level_{level}.cpp", tmp_path, ["-O1"])
        names = subprocess.run(["nm", compiled], capture_output=True, text=True, check=True).stdout.splitlines()
        own = f"7headway{len(level)}{level}"  # as compilers write headway::level in a symbol
        shared = [line for line in names if line[17:18] in "WVu" and own not in line]
        assert any(own in line for line in names)
        assert not shared
