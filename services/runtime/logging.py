"""Logs: structlog, one line an event, JSON for machines or colours for people, on standard error."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import structlog

from services.runtime.log_options import LogFormat, LogLevel


def configure(process: str, level: LogLevel = "info", log_format: LogFormat = "console") -> None:
    """Sets up the logs of this process. A call below `level` costs one empty function: no string is ever made."""
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, *_common(process), *_renderers(log_format)],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """The logger of one module; give values as keywords (`log.info("step ended", step=7)`), never in the text."""
    return cast(structlog.typing.FilteringBoundLogger, structlog.get_logger(module=name))


@contextmanager
def request_bound(request_id: str) -> Iterator[None]:
    """Every line logged inside, in this thread or task, carries `request_id`."""
    with structlog.contextvars.bound_contextvars(request_id=request_id):
        yield


def _common(process: str) -> list[structlog.typing.Processor]:
    def name_process(
        _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        event.setdefault("process", process)
        return event

    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        name_process,
    ]


def _renderers(log_format: LogFormat) -> list[structlog.typing.Processor]:
    if log_format == "json":
        # Without the locals of each frame: they hold what clients sent.
        tracebacks = structlog.processors.ExceptionRenderer(
            structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        )
        return [tracebacks, structlog.processors.JSONRenderer(default=str)]
    return [
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
    ]
