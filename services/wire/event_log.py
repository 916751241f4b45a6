"""The event log: what the scheduler core was told and what it answered. See LogRecord in scheduling.proto."""

from services.wire.execution import Capacity, GrammarReady, StepPlan, StepResult
from services.wire.message import Message, message
from services.wire.scheduling import Cancel, CancelByIdRequest, Stop, Submit


@message
class LogHeader(Message):
    protocol: int
    core_settings_json: str
    build: str = ""


@message
class SessionOpened(Message):
    router: int


@message
class SessionClosed(Message):
    router: int


@message
class RoutedSubmit(Message):
    router: int
    submit: Submit


@message
class RoutedStop(Message):
    router: int
    stop: Stop


@message
class RoutedCancel(Message):
    router: int
    cancel: Cancel


@message
class ExecutorUp(Message):
    session: int
    capacity: Capacity


@message
class ExecutorDown(Message):
    pass


@message
class Tick(Message):
    pass


@message
class Drain(Message):
    pass


Event = (
    SessionOpened
    | SessionClosed
    | RoutedSubmit
    | RoutedStop
    | RoutedCancel
    | ExecutorUp
    | ExecutorDown
    | StepResult
    | GrammarReady
    | CancelByIdRequest
    | Tick
    | Drain
)


@message
class LogEvent(Message):
    at_us: int
    body: Event


@message
class LogPlan(Message):
    at_us: int
    plan: StepPlan | None = None
    outputs_digest: bytes = b""


@message
class LogRecord(Message):
    body: LogHeader | LogEvent | LogPlan
