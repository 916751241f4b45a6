"""Listen addresses: private by default, public by leave, nonsense never."""

import pytest

from services.runtime.lifecycle import BadSetting
from services.runtime.listen import check_listen, is_loopback


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
