"""Events that must not happen: a peer broke its protocol. Raised before anything has changed.

IllegalEvent
+-- RouterBroke      close that router's stream
+-- ExecutorBroke    treat the executor as lost
"""


class IllegalEvent(Exception):
    """An event that the state does not allow. The core is as it was."""


class RouterBroke(IllegalEvent):
    """A router broke the protocol: its stream is to be closed, which cancels its requests."""

    def __init__(self, router: int, why: str) -> None:
        super().__init__(f"router {router}: {why}")
        self.router = router


class ExecutorBroke(IllegalEvent):
    """The executor broke the protocol: its session cannot go on."""
