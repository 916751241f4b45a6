"""What a served system holds at a moment: the scheduler's own load, and each process's memory and descriptors."""

import os
import threading
from dataclasses import dataclass
from pathlib import Path

import grpc
from headway.internal.v1 import scheduling_pb2, scheduling_pb2_grpc


@dataclass(frozen=True)
class Footprint:
    """Of one process."""

    resident_kib: int
    descriptors: int
    threads: int


def footprint(pid):
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    resident = int(status["VmRSS"].split()[0])
    return Footprint(resident, len(list(Path(f"/proc/{pid}/fd").iterdir())), int(status["Threads"]))


def scheduler_socket(runtime_dir):
    """The scheduler's address in the run directory of the one server that serves below `runtime_dir`."""
    (path,) = Path(runtime_dir).glob(f"headway-{os.getuid()}/run-*/scheduler.sock")
    return f"unix:{path}"


def load_of(address):
    """The scheduler's newest Load, heard as a router hears it."""
    heard = threading.Event()

    def words():
        yield scheduling_pb2.ToScheduler(hello=scheduling_pb2.RouterHello(protocol=1, router="gauge"))
        heard.wait(5)  # the stream lives until the answer is there

    with grpc.insecure_channel(address) as channel:
        for message in scheduling_pb2_grpc.SchedulingStub(channel).Attach(words(), timeout=5):
            if message.WhichOneof("body") == "load":
                heard.set()
                return message.load
    raise AssertionError("the scheduler told no load")
