"""`headway replay`: runs a recorded event log through this version's scheduler core."""

from pathlib import Path

from services.cli.console import Failed, out
from services.runtime.lifecycle import BadSetting
from services.scheduler import recorder


def replay(file: str) -> int:
    """Run a scheduler's event log again: exit code 0 when this version decides byte for byte the same, 1 when not.

    Exit code 2: the file is no event log. HEADWAY_SCHEDULER_RECORD=PATH makes a scheduler write one.

    Args:
        file: The event log.
    """
    try:
        done = recorder.replay(Path(file))
    except recorder.ReplayDiverged as error:
        raise Failed(f"the replay diverges: {error}") from None
    except recorder.InvalidLog as error:
        raise BadSetting(f"{file}: {error}") from None
    except OSError as error:
        raise BadSetting(f"cannot read {file}: {error.strerror}") from None
    out.print(f"equal: {done.num_events} events, {done.num_plans} plans, {done.num_outputs} messages to routers")
    return 0
