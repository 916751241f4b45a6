"""A clock that moves by a fixed amount each time it is read."""


class SteppingClock:
    """Nanoseconds; each read is `step_ns` after the one before."""

    def __init__(self, step_ns):
        self.step_ns = step_ns
        self.now_ns = 0

    def __call__(self):
        self.now_ns += self.step_ns
        return self.now_ns
