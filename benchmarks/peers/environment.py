"""A peer's environment: a virtual environment of its own, made once from PyPI with pinned versions."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from services.executor.weights.digests import cache_dir
from services.executor.weights.locking import locked

INSTALL_LIMIT_S = 3600.0
JOBS = 2
_STAMP = "headway-recipe.json"
_LAST_LINES = 3
_LIMITS = {  # of what is built from source; unbounded, one build takes all cores and more memory than there is
    "LLAMA_CPP_BUILD_JOBS": str(JOBS),
    "CMAKE_BUILD_PARALLEL_LEVEL": str(JOBS),
    "MAKEFLAGS": f"-j{JOBS}",
    "CMAKE_ARGS": "-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF",  # a third of the time; nothing that is served
}


class NotInstalled(Exception):
    """The peer cannot be had here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is put into an environment. Where it changes, the environment is made anew."""

    name: str
    version: str
    requirements: tuple[str, ...]
    torch: str = ""  # from the index of CPU builds where one is given; empty: none, or whatever the others ask for
    without: tuple[str, ...] = ()  # distributions that come along and keep the peer from starting
    known_as: str = ""  # another distribution's name==version, under which the peer looks itself up

    @property
    def folder_name(self) -> str:
        return f"{self.name}-{self.version}"


def peers_dir() -> Path:
    """Where environments and converted models are kept."""
    return cache_dir() / "peers"


def python_of(recipe: Recipe, folder: Path) -> Path:
    """The environment's interpreter, whether it is there or not."""
    return folder / recipe.folder_name / "bin" / "python"


def ensure(recipe: Recipe, folder: Path, torch_index: str = "") -> Path:
    """The interpreter of the environment, which is made where it is not there yet. Raises `NotInstalled`."""
    place = folder / recipe.folder_name
    with locked(folder / f".{recipe.folder_name}.lock"):
        if not is_made(recipe, folder):
            shutil.rmtree(place, ignore_errors=True)
            _make(recipe, place, torch_index)
            (place / _STAMP).write_text(json.dumps(asdict(recipe)))
    return python_of(recipe, folder)


def is_made(recipe: Recipe, folder: Path) -> bool:
    """Whether the environment is there, whole, and made from this very recipe."""
    with suppress(OSError, ValueError):
        stamp = json.loads((folder / recipe.folder_name / _STAMP).read_text())
        return bool(stamp == json.loads(json.dumps(asdict(recipe)))) and python_of(recipe, folder).exists()
    return False


def _make(recipe: Recipe, place: Path, torch_index: str) -> None:
    log = place.with_name(place.name + ".log")
    pip = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    with log.open("wb") as file:

        def do(*command: str) -> None:
            try:
                done = subprocess.run(
                    command,
                    env=os.environ | _LIMITS,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    timeout=INSTALL_LIMIT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise NotInstalled(f"not installed within {INSTALL_LIMIT_S:.0f} s; see {log.name}") from None
            if done.returncode:
                raise NotInstalled(f"{reason_in(log.read_text(errors='replace'))}; see {log.name}")

        do(sys.executable, "-m", "venv", str(place))
        if recipe.torch:
            index = ["--no-deps", "--index-url", torch_index] if torch_index else []
            do(*pip, "install", *index, recipe.torch)
        do(*pip, "install", *recipe.requirements)
        if recipe.without:
            do(*pip, "uninstall", "--yes", *recipe.without)
    if recipe.known_as:
        _write_alias(recipe, place)


def reason_in(log: str) -> str:
    """What pip said last, or what it called an error."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return " ".join((errors or lines or ["pip said nothing"])[-_LAST_LINES:])[-400:]


def _write_alias(recipe: Recipe, place: Path) -> None:
    """Metadata of a distribution that has no files: only so that its version can be looked up."""
    (packages,) = place.glob("lib/python*/site-packages")
    name, _, version = recipe.known_as.partition("==")
    folder = packages / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "INSTALLER").write_text("headway\n")
    (folder / "RECORD").write_text("")
