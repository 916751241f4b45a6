"""The numerics digest: what has to be equal for two executors to compute the same bits."""

import hashlib
import platform
from pathlib import Path


def numerics_digest(fingerprint: str, *numerics: str) -> str:
    """The hex digest of weights, what the back end says of its numerics, and the processor.

    Threads, batch size and pool size are not in it: they change no bits.
    """
    parts = (fingerprint, *numerics, platform.machine(), _processor())
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def _processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Vendor, family and model: matrix libraries choose their kernels by them. Empty where the system does not tell."""
    if not cpuinfo.is_file():
        return ""
    wanted = ("vendor_id", "cpu family", "model")
    first = cpuinfo.read_text().split("\n\n", 1)[0]
    fields = (line.partition(":") for line in first.splitlines())
    return " ".join(value.strip() for name, _, value in fields if name.strip() in wanted)
