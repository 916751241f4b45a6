"""Typed channels over real sockets: messages arrive typed, garbage never reaches the loop."""

import contextlib
import time

import pytest
import zmq

from services.runtime.curve import generate_keys
from services.runtime.lifecycle import BadSetting
from services.runtime.zeromq import ClientChannel, Drops, ServerChannel, check_endpoint


def _encode(number):
    return str(number).encode()


def _decode(data):
    return int(data)  # ValueError for garbage


@pytest.fixture
def context():
    with zmq.Context() as context:
        yield context


@pytest.fixture
def endpoint(tmp_path):
    return f"ipc://{tmp_path}/s"


def _server(context, endpoint, **options):
    return contextlib.closing(ServerChannel(context, endpoint, encode=_encode, decode=_decode, **options))


def _client(context, endpoint, identity=b"one", **options):
    options = {"encode": _encode, "decode": _decode, **options}
    return contextlib.closing(ClientChannel(context, endpoint, identity=identity, **options))


def _send_when_connected(client, message):
    deadline = time.monotonic() + 10
    while not client.send(message):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _receive(server, timeout_ms=10_000):
    deadline = time.monotonic() + timeout_ms / 1000
    while (got := server.receive()) is None and time.monotonic() < deadline:
        server.socket.poll(20)
    return got


def test_messages_travel_both_ways_typed(context, endpoint):
    """A client's message arrives with its identity, and the answer finds the way back."""
    with _server(context, endpoint) as server, _client(context, endpoint) as client:
        _send_when_connected(client, 41)
        assert _receive(server) == (b"one", 41)
        assert server.send(b"one", 42)
        assert client.receive(10_000) == 42


def test_receiving_gives_up_in_time(context, endpoint):
    """No message is None: at once at the server, after the timeout at the client."""
    with _server(context, endpoint) as server, _client(context, endpoint) as client:
        assert server.receive() is None
        started = time.monotonic()
        assert client.receive(30) is None
        assert time.monotonic() - started >= 0.02


def test_garbage_is_dropped_and_counted_on_the_server(context, endpoint):
    """Bytes that are no message, and messages of many frames, are counted; the good one behind them arrives."""
    with _server(context, endpoint) as server, _client(context, endpoint, encode=bytes) as client:
        _send_when_connected(client, b"\xff\x00garbage")
        client.send(b"")
        client.socket.send_multipart([b"7"] * 5_000)
        client.send(b"7")
        assert _receive(server) == (b"one", 7)
        assert server.drops.count == 3


def test_garbage_is_dropped_and_counted_on_the_client(context, endpoint):
    """The client's loop sees None for garbage, and then the good message."""
    with _server(context, endpoint) as server, _client(context, endpoint) as client:
        _send_when_connected(client, 1)
        _receive(server)
        server.socket.send_multipart([b"one", b"\xff"])
        server.socket.send_multipart([b"one", b"1", b"2", b"3"])
        server.send(b"one", 9)
        assert [client.receive(10_000) for _ in range(3)] == [None, None, 9]
        assert client.drops.count == 2


def test_an_oversize_frame_never_arrives(context, endpoint):
    """A frame over the cap costs its sender the connection; the next good frame arrives."""
    with _server(context, endpoint, max_frame_bytes=1000) as server, _client(context, endpoint) as client:
        _send_when_connected(client, 10**2000)
        time.sleep(0.1)
        _send_when_connected(client, 5)
        assert _receive(server) == (b"one", 5)


def test_a_peer_that_is_not_there_is_lost_not_an_error(context, endpoint):
    """Sending to an unknown peer, or with nobody connected, says False."""
    with _server(context, endpoint) as server:
        assert server.send(b"nobody", 1) is False
    with _client(context, f"{endpoint}-of-nobody") as client:
        assert client.send(1) is False


def test_a_peer_that_reads_nothing_is_lost_not_a_block(context, endpoint):
    """When a peer's buffers are full, send says False at once."""
    with _server(context, endpoint) as server, _client(context, endpoint) as client:
        _send_when_connected(client, 1)
        _receive(server)
        sent = 0
        while server.send(b"one", 10**4000):
            sent += 1
            assert sent < 100_000
        assert sent > 0


def test_a_client_finds_a_server_that_starts_again(context, endpoint):
    """After a restart of the bound side the same client is heard again, with nothing from before."""
    with _client(context, endpoint) as client:
        with zmq.Context() as first_life, _server(first_life, endpoint) as server:
            _send_when_connected(client, 1)
            assert _receive(server) == (b"one", 1)
        with zmq.Context() as second_life, _server(second_life, endpoint) as server:
            deadline = time.monotonic() + 10
            while (got := server.receive()) is None and time.monotonic() < deadline:
                client.send(2)  # one that goes to the old connection is lost: who needs an answer asks again
                time.sleep(0.01)
            assert got == (b"one", 2)


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("tcp://127.0.0.1:5555", "CURVE"),
        ("inproc://x", "neither"),
        ("ipc://", "neither"),
        ("/tmp/x", "neither"),
        ("ipc:///" + "x" * 120, "longer"),
    ],
)
def test_unsafe_or_senseless_endpoints_are_refused(endpoint, why):
    """A tcp endpoint without keys, other transports and impossible paths are bad settings."""
    with pytest.raises(BadSetting, match=why):
        check_endpoint(endpoint, has_keys=False)


def test_a_taken_or_missing_place_is_a_bad_setting(context, tmp_path):
    """A directory that does not exist ends in words for the operator, not in a traceback."""
    with pytest.raises(BadSetting, match="cannot listen"):
        ServerChannel(context, f"ipc://{tmp_path}/none/s", encode=_encode, decode=_decode)


def test_tcp_with_keys_lets_in_the_one_client(context):
    """Over tcp the holder of the key file is heard; a client with other keys, or with none, is not."""
    keys = generate_keys()
    with _server(context, "tcp://127.0.0.1:*", keys=keys) as server:
        endpoint = server.socket.getsockopt_string(zmq.LAST_ENDPOINT)
        stranger = generate_keys()
        stranger_keys = type(keys)(
            keys.server_public, keys.server_secret, stranger.client_public, stranger.client_secret
        )
        with _client(context, endpoint, identity=b"stranger", keys=stranger_keys) as other:
            other.socket.setsockopt(zmq.IMMEDIATE, 0)
            with contextlib.suppress(zmq.Again):
                other.send(666)
            plain = context.socket(zmq.DEALER)
            plain.setsockopt(zmq.LINGER, 0)
            plain.connect(endpoint)
            plain.send(b"666")
            with _client(context, endpoint, keys=keys) as client:
                _send_when_connected(client, 7)
                assert _receive(server) == (b"one", 7)
            assert _receive(server, 200) is None
            plain.close()


def test_a_flood_of_drops_logs_few_lines(capsys):
    """A thousand refused frames are counted one by one and logged at powers of two."""
    drops = Drops("ipc://x")
    for _ in range(1000):
        drops.add("garbage")
    assert drops.count == 1000
    assert capsys.readouterr().out.count("frame dropped") == 10
