"""Typed ZeroMQ channels: one message is one frame; what is no message is dropped, counted and never raised.

Knows no message: a channel is given the two functions that turn messages into bytes and back. The decoder raises
ValueError for bytes that are none, and for those of another protocol. A socket belongs to the thread that made it.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import zmq

from services.runtime.curve import CurveKeys, NoKeys, secure_client, secure_server
from services.runtime.lifecycle import BadSetting
from services.runtime.logging import get_logger

Out = TypeVar("Out")
In = TypeVar("In")

MAX_FRAME_BYTES = 64 << 20  # a model card with its tokenizer is some MB, a million token ids are four
HIGH_WATER_MARK_FRAMES = 64  # the window is the pipeline's depth: a full buffer means that the peer is gone
_RECONNECT_MS = 50
_RECONNECT_MAX_MS = 500
_MAX_UNIX_PATH_BYTES = 107

_log = get_logger(__name__)


def check_endpoint(endpoint: str, *, has_keys: bool) -> None:
    """Raises `BadSetting` unless the endpoint is ipc, or tcp guarded by CURVE keys."""
    scheme, separator, address = endpoint.partition("://")
    if not separator or not address or scheme not in {"ipc", "tcp"}:
        raise BadSetting(f"endpoint {endpoint!r} is neither ipc://PATH nor tcp://HOST:PORT")
    if scheme == "tcp" and not has_keys:
        raise BadSetting(f"endpoint {endpoint!r} is reachable from other machines: tcp needs a CURVE key file")
    if scheme == "ipc" and len(address.encode()) > _MAX_UNIX_PATH_BYTES:
        raise BadSetting(f"endpoint {endpoint!r} has a path longer than {_MAX_UNIX_PATH_BYTES} bytes")


class Drops:
    """Counts the frames that a channel refused; logs the 1st, 2nd, 4th, 8th ... so that a flood cannot fill the disk."""

    __slots__ = ("count", "endpoint")

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.count = 0

    def add(self, reason: str) -> None:
        self.count += 1
        if self.count & (self.count - 1) == 0:
            _log.warning("frame dropped", reason=reason, dropped=self.count)


class ServerChannel(Generic[Out, In]):
    """The bound side: a ROUTER that knows its peers by their identities."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: str,
        *,
        encode: Callable[[Out], bytes],
        decode: Callable[[bytes], In],
        keys: CurveKeys | None = None,
        max_frame_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        check_endpoint(endpoint, has_keys=keys is not None)
        self._encode = encode
        self._decode = decode
        self.drops = Drops(endpoint)
        self.socket = _socket(context, zmq.ROUTER, max_frame_bytes)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.socket.setsockopt(zmq.ROUTER_HANDOVER, 1)  # a peer that reconnects before its old connection is known dead
        self._authenticator = secure_server(context, self.socket, keys) if keys else NoKeys()
        try:
            self.socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise BadSetting(f"cannot listen on {endpoint!r}: {error.strerror or error}") from None

    def send(self, peer: bytes, message: Out) -> bool:
        """Hands `message` to `peer`; False when that peer is gone or takes nothing: it is lost either way."""
        try:
            self.socket.send_multipart((peer, self._encode(message)), zmq.NOBLOCK)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return False
        return True

    def receive(self) -> tuple[bytes, In] | None:
        """The next (peer, message) that has arrived, or None; never waits, and gives up in a flood of garbage."""
        for _ in range(HIGH_WATER_MARK_FRAMES):
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return None
            if len(frames) != 2:
                self.drops.add(f"{len(frames) - 1} frames in one message")
                continue
            try:
                return frames[0], self._decode(frames[1])
            except ValueError as error:
                self.drops.add(str(error))
        return None

    def close(self) -> None:
        self.socket.close(linger=0)
        self._authenticator.stop()


class ClientChannel(Generic[Out, In]):
    """The connecting side: a DEALER that reconnects by itself and never queues for an absent peer."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: str,
        *,
        identity: bytes,
        encode: Callable[[Out], bytes],
        decode: Callable[[bytes], In],
        keys: CurveKeys | None = None,
        max_frame_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        check_endpoint(endpoint, has_keys=keys is not None)
        self._encode = encode
        self._decode = decode
        self.drops = Drops(endpoint)
        self.socket = _socket(context, zmq.DEALER, max_frame_bytes)
        self.socket.setsockopt(zmq.IDENTITY, identity)
        self.socket.setsockopt(zmq.IMMEDIATE, 1)
        self.socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
        if keys:
            secure_client(self.socket, keys)
        self.socket.connect(endpoint)

    def send(self, message: Out) -> bool:
        """Hands `message` to the peer; False when there is none, or it takes nothing."""
        try:
            self.socket.send(self._encode(message), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive(self, timeout_ms: int) -> In | None:
        """The next message, or None when none came in time, or what came was dropped."""
        if not self.socket.poll(timeout_ms):
            return None
        try:
            frames = self.socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None
        if len(frames) != 1:
            self.drops.add(f"{len(frames)} frames in one message")
            return None
        try:
            return self._decode(frames[0])
        except ValueError as error:
            self.drops.add(str(error))
            return None

    def close(self, linger_ms: int = 0) -> None:
        self.socket.close(linger=linger_ms)


def _socket(context: zmq.Context[zmq.Socket[bytes]], kind: int, max_frame_bytes: int) -> zmq.Socket[bytes]:
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, HIGH_WATER_MARK_FRAMES)
    socket.setsockopt(zmq.RCVHWM, HIGH_WATER_MARK_FRAMES)
    socket.setsockopt(zmq.MAXMSGSIZE, max_frame_bytes)
    return socket
