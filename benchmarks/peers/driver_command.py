"""How a driver is started inside a peer's environment."""

from pathlib import Path

import benchmarks


def driver_dir(folder: Path) -> Path:
    """The working directory of drivers: it holds a link to `benchmarks` and nothing else of this repository.

    The repository's root itself would show a peer our packages: transformers, for one, uses a package called `kernels`.
    """
    place = folder / "path"
    place.mkdir(parents=True, exist_ok=True)
    link, package = place / "benchmarks", Path(benchmarks.__file__).parent
    if not link.is_symlink() or link.readlink() != package:
        link.unlink(missing_ok=True)
        link.symlink_to(package)
    return place


def driver_command(python: Path, driver: str, *arguments: str) -> list[str]:
    """Runs a module of `benchmarks.peers.drivers`; the working directory must be `driver_dir`."""
    return [str(python), "-m", f"benchmarks.peers.drivers.{driver}", *arguments]


def last_line(text: str) -> str:
    """What a process said last: of a Python traceback that is the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][-300:] if lines else "it said nothing"
