"""Listen addresses: unix sockets and loopback are private; anything else is public and must be asked for."""

import ipaddress

from services.runtime.lifecycle import BadSetting

_MAX_UNIX_PATH_BYTES = 107


def check_listen(address: str, *, allow_public: bool) -> None:
    """Raises `BadSetting` for an address that is neither unix:PATH nor HOST:PORT, or is public without leave."""
    if address.startswith("unix:"):
        path = address.removeprefix("unix:").removeprefix("//")
        if not path or len(path.encode()) > _MAX_UNIX_PATH_BYTES:
            raise BadSetting(f"listen address {address!r} needs a path of 1 to {_MAX_UNIX_PATH_BYTES} bytes")
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise BadSetting(f"listen address {address!r} is neither unix:PATH nor HOST:PORT")
    if not allow_public and not is_loopback(host):
        raise BadSetting(f"listen address {address!r} can be reached from other machines; allow_public permits that")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
