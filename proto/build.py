"""Makes the stubs from the contracts; with --check says whether the committed ones are stale.

With --release it also writes `released.binpb`: the descriptors that later contracts may only add to.
"""

import filecmp
import importlib.resources
import subprocess
import sys
import tempfile
from pathlib import Path

PROTO = Path(__file__).parent


def build(into: Path) -> None:
    """Writes the stubs of every contract below `into`."""
    protoc(f"--python_out={into}", f"--pyi_out={into}", f"--grpc_python_out={into}")
    for stub in into.glob("headway/**/*_pb2_grpc.py"):
        if "class " not in stub.read_text().replace("class Experimental", ""):
            stub.unlink()  # a contract without a service


def protoc(*outputs: str) -> None:
    """Runs the compiler over every contract."""
    contracts = sorted(str(path.relative_to(PROTO)) for path in PROTO.glob("headway/**/*.proto"))
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    google_rpc = importlib.resources.files("google.rpc").joinpath("status.proto")
    with importlib.resources.as_file(google_rpc) as status:
        command = [
            *(sys.executable, "-m", "grpc_tools.protoc"),
            *(f"-I{PROTO}", f"-I{well_known}", f"-I{status.parent.parent.parent}"),
            *outputs,
            *contracts,
        ]
        subprocess.run(command, check=True)  # noqa: S603 - our own arguments


def release() -> None:
    """Keeps the contracts as they are now as those of the last release."""
    protoc(f"--descriptor_set_out={PROTO / 'released.binpb'}")


def stale() -> list[str]:
    """The committed stubs that differ from what the contracts make."""
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        fresh = {str(path.relative_to(folder)) for path in Path(folder).glob("headway/**/*_pb2*")}
        committed = {
            str(path.relative_to(PROTO)) for path in PROTO.glob("headway/**/*_pb2*.py*") if path.suffix != ".pyc"
        }
        _, different, missing = filecmp.cmpfiles(folder, PROTO, sorted(fresh | committed), shallow=False)
        return different + missing


if __name__ == "__main__":
    if "--check" not in sys.argv:
        build(PROTO)
        if "--release" in sys.argv:
            release()
    elif names := stale():
        sys.exit(f"stale stubs, run `make proto`: {', '.join(names)}")
