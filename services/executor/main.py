"""The executor process: loads the engine while its heartbeat runs, then serves until it is told to end."""

import os
import secrets

import zmq

from services.executor.heartbeat import ExecutorChannel, Heart, Identity, Pulse
from services.executor.settings import ExecutorSettings
from services.executor.worker import Engine, Worker, decode_to_executor
from services.runtime import logging
from services.runtime.curve import CurveKeys, read_keys
from services.runtime.lifecycle import BadSetting, ExitCode, on_terminate, pid_namespace
from services.runtime.zeromq import ClientChannel, check_endpoint
from services.wire import codec
from services.wire.execution import heartbeat_identity, main_identity

_LAST_WORDS_MS = 200

_log = logging.get_logger(__name__)


def main(settings: ExecutorSettings) -> int:
    """Runs one executor; returns the process's exit code."""
    logging.configure("executor", settings.log_level, settings.log_format)
    try:
        keys = read_keys(settings.curve_key_file)
        check_endpoint(settings.scheduler_endpoint, has_keys=keys is not None)
        return _serve(settings, keys)
    except BadSetting as error:
        _log.error("cannot start", reason=str(error))
        return ExitCode.BAD_SETTING
    except Exception:  # noqa: BLE001 the process border: whatever broke ends this executor, and the scheduler sees it
        _log.exception("executor broke")
        return ExitCode.BROKEN


def build_engine(settings: ExecutorSettings) -> Engine:
    """The engine that the settings ask for; neither the simulated nor the compiled one imports torch.

    Raises:
        BadSetting: the model cannot be loaded, or not in the way that is asked for.
    """
    if settings.backend == "simulated":
        import time

        from services.executor.simulated import SimulatedExecutor, simulated_model

        return SimulatedExecutor(simulated_model(settings), sleep=time.sleep)
    if not settings.model:
        raise BadSetting("model is not set: give a GGUF file or a Hugging Face directory")
    from services.executor.loading import build_engine as build_real_engine
    from services.executor.weights.errors import ModelFileError

    try:
        return build_real_engine(settings)
    except ModelFileError as error:
        raise BadSetting(f"the model cannot be loaded: {error}") from None


def _serve(settings: ExecutorSettings, keys: CurveKeys | None) -> int:
    identity = Identity(secrets.randbits(64), os.getpid(), pid_namespace())
    pulse = Pulse()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()

    def open_channel(socket_identity: bytes) -> ExecutorChannel:
        return ClientChannel(
            context,
            settings.scheduler_endpoint,
            identity=socket_identity,
            encode=codec.encode,
            decode=decode_to_executor,
            keys=keys,
        )

    heart = Heart(pulse, identity, lambda: open_channel(heartbeat_identity(identity.instance)))
    heart.start()
    on_terminate(lambda: os._exit(ExitCode.OK))  # while it loads, nothing is in work
    try:
        engine = build_engine(settings)
        channel = open_channel(main_identity(identity.instance))
        worker = Worker(engine, channel, pulse, identity)
        on_terminate(worker.stop)
        try:
            return worker.run()
        finally:
            channel.close(_LAST_WORDS_MS)
    finally:
        heart.stop()
        context.term()
