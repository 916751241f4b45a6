"""Addresses to listen on: whether one is free, and how it is reached from this machine."""

import errno
import time

from services.runtime.lifecycle import BadSetting
from services.runtime.listen import try_bind, try_listen

_RETRY_S = 0.1


def split(address: str) -> tuple[str, int] | None:
    """Host and port; None for a unix: address. Raises `BadSetting`."""
    if address.startswith("unix:"):
        return None
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or int(port) > 65535:
        raise BadSetting(f"{address!r} is no address: give host:port or unix:PATH")
    return host, int(port)


def join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def with_port(address: str, port: int | None) -> str:
    """`address` with another port, where one is given."""
    place = split(address)
    if port is None:
        return address
    if place is None:
        raise BadSetting("a unix: address has no port: give either")
    return join(place[0], port)


def free(address: str, wait_s: float = 2.0) -> str:
    """`address`, with a free port where its port is 0, once it can be listened on.

    A server that has just been killed may hold its port a moment longer, so a taken one is tried for `wait_s`.
    Raises `BadSetting` when it stays taken, or is none of this machine's.
    """
    place = split(address)
    if place is None:
        try_listen(address)
        return address
    give_up_s = time.monotonic() + wait_s
    while True:
        try:
            return join(place[0], try_bind(*place))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise BadSetting(f"cannot listen on {address}: {error.strerror or error}") from None
            if time.monotonic() >= give_up_s:
                raise BadSetting(
                    f"port {place[1]} of {place[0]} is in use: end what listens there, "
                    "or choose another with --port (0 takes a free one)"
                ) from None
        time.sleep(_RETRY_S)


def reachable(address: str) -> str:
    """Where a client on this machine reaches a server that listens on `address`."""
    place = split(address)
    if place is None:
        return address
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - read, not bound
    return join(everywhere.get(place[0], place[0]), place[1])
