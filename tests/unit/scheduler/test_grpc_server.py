"""The event loop's thread. Its calls over real streams: test_scheduler_stream, test_scheduler_lifecycle."""

import asyncio
import time

import pytest

from services.runtime.lifecycle import BadSetting
from services.scheduler import grpc_server
from services.scheduler.grpc_server import GrpcServer
from services.scheduler.inbox import Inbox


def test_one_that_could_not_listen_can_be_stopped(tmp_path, monkeypatch):
    """Its loop is closed before its thread has ended: stopping waits for the thread and wakes nobody."""

    class SlowToEnd(asyncio.Runner):
        def __exit__(self, *args):
            super().__exit__(*args)
            time.sleep(0.2)

    monkeypatch.setattr(grpc_server.asyncio, "Runner", SlowToEnd)
    inbox = Inbox()
    server = GrpcServer(f"unix:{tmp_path}/none/s.sock", inbox, backlog_limit_bytes=1)
    with pytest.raises(BadSetting, match="no folder"):
        server.start()
    time.sleep(0.1)
    server.stop(0.0)
    inbox.close()
