"""Listen addresses: unix sockets and loopback are private; anything else is public and must be asked for."""

import ipaddress
import os
import socket
from pathlib import Path

from services.runtime.lifecycle import BadSetting

_MAX_UNIX_PATH_BYTES = 107
_CONNECT_TIMEOUT_S = 1.0


def check_listen(address: str, *, allow_public: bool) -> None:
    """Raises `BadSetting` for an address that is neither unix:PATH nor HOST:PORT, or is public without leave."""
    if address.startswith("unix:"):
        path = unix_path(address)
        if not path or len(path.encode()) > _MAX_UNIX_PATH_BYTES:
            raise BadSetting(f"listen address {address!r} needs a path of 1 to {_MAX_UNIX_PATH_BYTES} bytes")
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise BadSetting(f"listen address {address!r} is neither unix:PATH nor HOST:PORT")
    if not allow_public and not is_loopback(host):
        raise BadSetting(f"listen address {address!r} can be reached from other machines; allow_public permits that")


def try_listen(address: str) -> None:
    """Makes sure that a checked `address` can be listened on, and lets go of it. Raises `BadSetting` with the reason.

    gRPC writes a reason of its own to stderr, past our log and full of its insides, so that it is asked to bind only
    what can be bound. Of a unix socket that a live server has it would even take the name away.
    """
    try:
        if address.startswith("unix:"):
            _try_unix(Path(unix_path(address)))
        else:
            host, _, port = address.rpartition(":")
            try_bind(host.strip("[]"), int(port))
    except OSError as error:
        raise BadSetting(f"cannot listen on {address}: {error.strerror or error}") from None


def try_bind(host: str, port: int) -> int:
    """Binds `host`, at one of its addresses, and lets go at once; the port. Raises `OSError`."""
    failure = OSError(f"{host} has no address")
    for family, kind, protocol, _, where in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have ended do not count
                probe.bind(where)
                taken: int = probe.getsockname()[1]
                return taken
        except OSError as error:
            failure = error
    raise failure


def _try_unix(path: Path) -> None:
    """What a dead server has left behind is no hindrance."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise OSError(f"there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(f"the folder {folder} may not be written in")
    if path.exists() and not path.is_socket():
        raise OSError("there is something else at that path")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CONNECT_TIMEOUT_S)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return
    raise OSError("another process listens there")


def unix_path(address: str) -> str:
    """The path in a unix: address."""
    return address.removeprefix("unix:").removeprefix("//")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
