"""A Hugging Face hub on loopback: one repository, ranges, and the faults that a test asks for."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c0ffee" + "0" * 34


class FakeHub:
    """Serves `files`; `break_after` bytes of an answer the connection drops, `breaks_left` times."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.listed = [self._listed(name, data) for name, data in files.items()]
        self.break_after = 0
        self.breaks_left = 0
        self.has_ranges = True
        self.status = 200
        self.requests: list[tuple[str, str]] = []  # path, Range

    @staticmethod
    def _listed(name: str, data: bytes) -> dict[str, object]:
        if name.endswith(".safetensors"):
            return {"rfilename": name, "lfs": {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}}
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        return {"rfilename": name, "size": len(data), "blobId": blob}

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path.split("?")[0]
        wanted = handler.headers.get("Range", "")
        self.requests.append((path, wanted))
        if self.status != 200:
            handler.send_error(self.status)
            return
        if path.startswith("/api/models/org/tiny/revision/"):
            send(handler, 200, json.dumps({"sha": COMMIT, "siblings": self.listed}).encode())
            return
        data = self.files.get(path.removeprefix(f"/org/tiny/resolve/{COMMIT}/"))
        if data is None:
            handler.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.has_ranges else 0
        headers = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}
        cut = None
        if self.breaks_left and len(data) - start > self.break_after:
            self.breaks_left -= 1
            cut = self.break_after
        send(handler, 206 if start else 200, data[start:], headers, cut)


def send(
    handler: BaseHTTPRequestHandler, status: int, data: bytes, headers: dict[str, str] | None = None, cut: int | None = None
) -> None:  # fmt: skip
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data if cut is None else data[:cut])
    handler.close_connection = True


@contextmanager
def serving(hub: FakeHub) -> Iterator[str]:
    """The address of `hub` while it serves."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.answer(self)

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
