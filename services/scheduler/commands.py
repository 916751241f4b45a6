"""What the event loop asks of the core's thread: events for the core, and questions that want an answer."""

from collections.abc import Callable
from dataclasses import dataclass

from services.wire.event_log import RoutedCancel, RoutedStop, RoutedSubmit, SessionClosed, SessionOpened
from services.wire.scheduling import CancelByIdRequest, CancelByIdResponse, ExplainByIdRequest, ExplainByIdResponse

FromRouter = SessionOpened | SessionClosed | RoutedSubmit | RoutedStop | RoutedCancel


@dataclass(frozen=True, slots=True)
class Explain:
    """`answer` is called in the core's thread."""

    request: ExplainByIdRequest
    answer: Callable[[ExplainByIdResponse], None]


@dataclass(frozen=True, slots=True)
class CancelById:
    """`answer` is called in the core's thread."""

    request: CancelByIdRequest
    answer: Callable[[CancelByIdResponse], None]


@dataclass(frozen=True, slots=True)
class BeginDrain:
    """Take nothing new, and end when all is done."""


Command = FromRouter | Explain | CancelById | BeginDrain
