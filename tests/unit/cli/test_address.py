"""Addresses to listen on."""

import socket
import threading
import time

import pytest

from services.cli import address
from services.runtime.lifecycle import BadSetting


@pytest.fixture
def taken():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_free_address_is_itself_and_port_0_becomes_a_free_one():
    """What can be listened on is returned with its port known."""
    free = address.free("127.0.0.1:0")
    assert free.startswith("127.0.0.1:")
    assert not free.endswith(":0")
    assert address.free(free) == free
    assert address.free("unix:/run/x.sock") == "unix:/run/x.sock"


def test_a_taken_port_is_told_with_what_to_do(taken):
    """After a moment's patience a port in use is a bad setting that names the port and the way out."""
    with pytest.raises(BadSetting, match=rf"port {taken} of 127.0.0.1 is in use.*--port"):
        address.free(f"127.0.0.1:{taken}", wait_s=0.2)


def test_a_port_that_becomes_free_is_waited_for():
    """A server that has just been killed may hold its port a moment longer."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    port = server.getsockname()[1]
    started = time.monotonic()
    timer = threading.Timer(0.3, server.close)
    timer.start()
    assert address.free(f"127.0.0.1:{port}", wait_s=30) == f"127.0.0.1:{port}"
    assert time.monotonic() - started >= 0.25
    timer.join()


def test_an_address_of_another_machine_is_refused():
    """An address that is none of this machine's is not retried as if it were taken."""
    with pytest.raises(BadSetting, match=r"cannot listen on 192\.0\.2\.1"):
        address.free("192.0.2.1:1", wait_s=0)


@pytest.mark.parametrize("bad", ["", "host", ":1", "host:x", "host:70000"])
def test_what_is_no_address_is_refused(bad):
    """A host and a port are both needed."""
    with pytest.raises(BadSetting):
        address.split(bad)


def test_ports_are_exchanged_and_every_interface_is_reached_by_loopback():
    """`with_port` changes the port alone; `reachable` turns a wildcard into this machine."""
    assert address.with_port("127.0.0.1:1", 2) == "127.0.0.1:2"
    assert address.with_port("[::1]:1", 2) == "[::1]:2"
    assert address.with_port("127.0.0.1:1", None) == "127.0.0.1:1"
    assert address.reachable("0.0.0.0:5") == "127.0.0.1:5"
    assert address.reachable("[::]:5") == "[::1]:5"
    assert address.reachable("unix:/x") == "unix:/x"
    with pytest.raises(BadSetting, match="has no port"):
        address.with_port("unix:/x", 1)
