"""The build of the kernels' shared library: a plain call of the C++ compiler per file, then one that links.

setup.py runs it when the package is installed, `python -m kernels.cpu.build` where sources, or the compiler, are new.
The library has a C interface and is no Python module, so one build serves every Python and no headers are needed.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
LIBRARY = FOLDER / "_headway_cpu.so"
# GCC 12 takes its own intrinsics for uninitialized (its bug 105593); clang does not know one of the names.
_QUIET = ("-Wno-uninitialized", "-Wno-maybe-uninitialized", "-Wno-unknown-warning-option")
COMPILE_FLAGS = (
    *("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-pthread"),
    *("-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra", *_QUIET),
)
LEVEL_FLAGS = {
    "level_avx512": (*(f"-mavx512{part}" for part in ("f", "bw", "dq", "vl", "vnni", "bf16")), "-mfma", "-mf16c"),
    "level_avx2": ("-mavx2", "-mfma", "-mf16c"),
}
"""By source file: one binary holds the code of every level, and only these files may use a level's instructions."""


class CompilerMissing(Exception):
    """No C++ compiler is on the PATH; $CXX names another."""


class CompileFailed(Exception):
    """The compiler refused a source; the text is what it said."""


def compiler() -> list[str]:
    """The compiler's command: $CXX, or the first that is installed of c++, g++ and clang++."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    names = chosen[:1] or ["c++", "g++", "clang++"]
    for name in names:
        if path := shutil.which(name):
            return [path, *chosen[1:]]
    raise CompilerMissing(f"no C++ compiler ({', '.join(names)}) is installed")


def sources() -> list[Path]:
    """Every file that the library is made from, headers and this file among them."""
    return sorted([*FOLDER.glob("*.cpp"), *FOLDER.glob("*.h"), Path(__file__)])


def has_sources() -> bool:
    """Whether the C++ sources are here: a package may be installed without them."""
    return any(FOLDER.glob("*.cpp"))


def version() -> str:
    """Of the sources: a fingerprint of what they say. The library holds that of its own (`headway_version`)."""
    text = b"\0".join(source.read_bytes() for source in sources())
    return hashlib.sha256(text).hexdigest()[:16]


def is_current(library: Path = LIBRARY) -> bool:
    """Whether the library is there and made from these sources."""
    return library.exists() and version().encode() in library.read_bytes()


def build(library: Path = LIBRARY, extra_flags: Sequence[str] = ()) -> None:
    """Compiles the library; what was there before is replaced when the new one is whole.

    Where that fails, a library of other sources does not stay: Python would call it as if it were of these.

    Raises:
        CompilerMissing: There is no compiler.
        CompileFailed: There is, and it failed.
    """
    try:
        command = compiler()
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=library.parent) as folder:
            objects = compile_all(command, Path(folder), extra_flags)
            linked = Path(folder) / library.name
            call([*command, "-shared", "-pthread", *extra_flags, *map(str, objects), "-o", str(linked)])
            linked.replace(library)
    except (CompilerMissing, CompileFailed):
        if not is_current(library):
            library.unlink(missing_ok=True)
        raise


def compile_all(command: Sequence[str], folder: Path, extra_flags: Sequence[str] = ()) -> list[Path]:
    """Compiles every source of the library into `folder` and returns the object files."""
    told = f'-DHEADWAY_VERSION="{version()}"'  # before any is read: a source that changes meanwhile makes it another
    compiled = []
    for source in sources():
        if source.suffix == ".cpp":
            flags = [*extra_flags, told] if source.stem == "runtime_api" else extra_flags
            compiled.append(compile_one(command, source, folder, flags))
    return compiled


def compile_one(command: Sequence[str], source: Path, folder: Path, extra_flags: Sequence[str] = ()) -> Path:
    """Compiles one source into `folder` and returns the object file."""
    target = folder / f"{source.stem}.o"
    flags = [*COMPILE_FLAGS, *level_flags(command, source.stem), *extra_flags]
    call([*command, *flags, "-c", str(source), "-o", str(target)])
    return target


def level_flags(command: Sequence[str], stem: str) -> tuple[str, ...]:
    """A level's flags where compiler and machine know them; without them its file compiles to nothing."""
    flags = LEVEL_FLAGS.get(stem, ())
    if not flags or platform.machine().lower() not in {"x86_64", "amd64"}:
        return ()
    probe = [*command, *flags, "-x", "c++", "-E", os.devnull]
    done = subprocess.run(probe, capture_output=True, check=False)  # noqa: S603 (the user's own compiler)
    return flags if done.returncode == 0 else ()


def call(command: Sequence[str]) -> None:
    """Runs a compiler's command; what it says is an error's text, or a warning."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (the user's own compiler)
    if done.returncode != 0:
        raise CompileFailed(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
    if done.stderr:
        sys.stderr.write(done.stderr)


def main() -> int:
    """Builds what is not current; where it cannot, it says why, ends with 1 and leaves no library: then torch serves."""
    if is_current():
        return 0
    try:
        build()
    except CompilerMissing as missing:
        sys.stderr.write(f"the compiled CPU kernels are not built: {missing}\n")
        return 1
    except CompileFailed as failed:
        sys.stderr.write(f"the compiled CPU kernels could not be built:\n{failed}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
