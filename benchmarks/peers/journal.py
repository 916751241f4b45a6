"""The journal of a session: each reading is written down as it is taken, so that a session cut short can go on."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.peers.readings import Reading


class Journal:
    """Readings of one session, in a file of JSON lines whose first line says what the session is."""

    def __init__(self, path: Path, plan: str, *, resume: bool) -> None:
        """Goes on with what is there when asked to, where it was made by the same `plan`; else begins anew."""
        self._path = path
        self.readings: list[Reading] = []
        lines = path.read_text().splitlines() if resume and path.exists() else []
        if lines and _of(lines[0]).get("plan") == plan:
            self.readings = [Reading(**fields) for line in lines[1:] if (fields := _of(line))]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            file.write(json.dumps({"plan": plan}) + "\n")
            file.writelines(json.dumps(asdict(reading)) + "\n" for reading in self.readings)

    def note(self, reading: Reading) -> None:
        self.readings.append(reading)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(reading)) + "\n")

    def of_visit(self, place: int) -> list[Reading]:
        """What a visit has measured so far."""
        return [reading for reading in self.readings if reading.place == place]


def _of(line: str) -> dict[str, Any]:
    """The fields of a line; none for one that a crash cut short."""
    try:
        fields = json.loads(line)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
