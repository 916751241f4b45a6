"""CURVE keys for ZeroMQ over tcp: one secret file for both sides of a link, and how sockets are armed with it.

The file has four lines `name = key` (Z85, 40 characters): server_public, server_secret, client_public, client_secret.
It is a secret: nobody but its owner may read it. The server lets in the one client key of the file.
"""

import os
import stat
from dataclasses import dataclass, fields
from pathlib import Path

import zmq
from zmq.auth.thread import ThreadAuthenticator

from services.runtime.lifecycle import BadSetting

_KEY_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class CurveKeys:
    server_public: str
    server_secret: str
    client_public: str
    client_secret: str


class NoKeys:
    """Stands where the authenticator of a guarded server would."""

    def stop(self) -> None:
        pass


def generate_keys() -> CurveKeys:
    """Fresh keys for one link."""
    server, client = zmq.curve_keypair(), zmq.curve_keypair()
    return CurveKeys(*(key.decode() for key in (*server, *client)))


def write_keys(path: Path, keys: CurveKeys) -> None:
    """Writes a new key file that only its owner can read. Raises FileExistsError rather than replace one."""
    text = "".join(f"{field.name} = {getattr(keys, field.name)}\n" for field in fields(keys))
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def read_keys(path: str) -> CurveKeys | None:
    """The keys of a file, None for no path. Raises `BadSetting` for a file that is open to others or not complete."""
    if not path:
        return None
    try:
        with Path(path).open(encoding="ascii") as file:
            mode = os.fstat(file.fileno()).st_mode
            lines = file.read(4096).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"cannot read the CURVE key file {path!r}: {error}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise BadSetting(f"the CURVE key file {path!r} is open to others: its mode must be 0600")
    values = {name.strip(): key.strip() for name, _, key in (line.partition("=") for line in lines if line.strip())}
    if set(values) != {field.name for field in fields(CurveKeys)}:
        raise BadSetting(f"the CURVE key file {path!r} must hold {', '.join(f.name for f in fields(CurveKeys))}")
    if any(len(key) != _KEY_CHARACTERS for key in values.values()):
        raise BadSetting(f"the CURVE key file {path!r} holds a key that has not {_KEY_CHARACTERS} characters")
    return CurveKeys(**values)


class _OneClient:
    """Tells the authenticator which client keys are let in."""

    def __init__(self, client_public: str) -> None:
        self._client_public = client_public.encode()

    def callback(self, _domain: str, key: bytes) -> bool:
        return key == self._client_public


def secure_server(
    context: zmq.Context[zmq.Socket[bytes]], socket: zmq.Socket[bytes], keys: CurveKeys
) -> ThreadAuthenticator:
    """Arms a server's socket before it is bound; the result is stopped after the socket is closed."""
    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    authenticator.configure_curve_callback(domain="*", credentials_provider=_OneClient(keys.client_public))
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt_string(zmq.CURVE_PUBLICKEY, keys.server_public)
    socket.setsockopt_string(zmq.CURVE_SECRETKEY, keys.server_secret)
    return authenticator


def secure_client(socket: zmq.Socket[bytes], keys: CurveKeys) -> None:
    """Arms a client's socket before it connects."""
    socket.setsockopt_string(zmq.CURVE_SERVERKEY, keys.server_public)
    socket.setsockopt_string(zmq.CURVE_PUBLICKEY, keys.client_public)
    socket.setsockopt_string(zmq.CURVE_SECRETKEY, keys.client_secret)
