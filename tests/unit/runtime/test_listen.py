"""Listen addresses: private by default, public by leave, nonsense never."""

import socket

import pytest

from services.runtime.lifecycle import BadSetting
from services.runtime.listen import check_listen, is_loopback, try_bind, try_listen


@pytest.mark.parametrize(
    "address", ["unix:/tmp/x", "unix:///tmp/x", "127.0.0.1:0", "localhost:50051", "[::1]:80", "127.9.9.9:65535"]
)
def test_private_addresses_need_no_leave(address):
    """Unix sockets and every loopback address are private."""
    check_listen(address, allow_public=False)


@pytest.mark.parametrize("address", ["0.0.0.0:1", "[::]:1", "192.168.1.2:1", "example.org:1"])
def test_public_addresses_need_leave(address):
    """What other machines may reach is refused, and allowed when that is asked for."""
    with pytest.raises(BadSetting, match="allow_public"):
        check_listen(address, allow_public=False)
    check_listen(address, allow_public=True)


@pytest.mark.parametrize(
    "address", ["", "unix:", "127.0.0.1", "127.0.0.1:http", ":80", "127.0.0.1:70000", "unix:" + "x" * 120]
)
def test_nonsense_is_refused_even_with_leave(address):
    """An address that no socket could have is a bad setting."""
    with pytest.raises(BadSetting):
        check_listen(address, allow_public=True)


def test_a_name_is_not_loopback_because_it_looks_like_it():
    """Only addresses and the name localhost count; other names may resolve to anything."""
    assert is_loopback("localhost")
    assert not is_loopback("127.0.0.1.example.org")


@pytest.mark.parametrize(
    ("place", "words"), [("none/x", "there is no folder"), ("file", "something else"), ("live", "another process")]
)
def test_a_unix_socket_that_cannot_be_listened_on_is_refused_with_the_reason(tmp_path, place, words):
    """A folder that is not there, a file that is no socket, a socket of a live server."""
    (tmp_path / "file").touch()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "live"))
        server.listen()
        with pytest.raises(BadSetting, match=words):
            try_listen(f"unix:{tmp_path}/{place}")


def test_what_a_dead_server_left_can_be_listened_on(tmp_path):
    """A socket file without a server, and a place where nothing is, are free."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "stale"))
    assert (tmp_path / "stale").exists()
    for place in ("stale", "new"):
        try_listen(f"unix:{tmp_path}/{place}")
        try_listen(f"unix://{tmp_path}/{place}")


def test_a_taken_port_and_an_address_of_another_machine_are_refused():
    """The system's own reason is told."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with pytest.raises(BadSetting, match="already in use"):
            try_listen(f"127.0.0.1:{server.getsockname()[1]}")
    with pytest.raises(BadSetting, match=r"cannot listen on 192\.0\.2\.1:1: .*assign"):
        try_listen("192.0.2.1:1")


def test_a_name_with_several_addresses_needs_one_that_can_be_had(monkeypatch):
    """A name is served although one of its addresses is not this machine's to give."""
    loopback = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
    elsewhere = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_options: [elsewhere, loopback])
    assert try_bind("localhost", 0) > 0
