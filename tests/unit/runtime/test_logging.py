"""Logs, read back from the standard error of a real process: the set-up is global."""

import json
import subprocess
import sys

_PROLOGUE = """
from services.runtime.logging import configure, get_logger, request_bound
"""


def _log_lines(code):
    done = subprocess.run(
        [sys.executable, "-c", _PROLOGUE + code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stderr.splitlines()


def test_json_lines_carry_process_level_module_and_values():
    """One event is one JSON object with all that was given."""
    lines = _log_lines("configure('scheduler', 'info', 'json')\nget_logger('link').info('executor lost', session=7)")
    record = json.loads(lines[0])
    assert record.pop("timestamp").endswith("Z")
    assert record == {
        "event": "executor lost",
        "session": 7,
        "level": "info",
        "module": "link",
        "process": "scheduler",
    }


def test_a_level_that_is_off_formats_nothing():
    """A value is not even turned into text when its level is off."""
    code = """
class Loud:
    def __repr__(self):
        raise AssertionError("formatted")
    __str__ = __repr__
configure('executor', 'warning', 'json')
log = get_logger('x')
log.debug('quiet %s', Loud(), value=Loud())
log.info('quiet', value=Loud())
log.warning('loud')
"""
    assert [json.loads(line)["event"] for line in _log_lines(code)] == ["loud"]


def test_a_request_id_is_bound_for_the_lines_inside_alone():
    """Lines inside the block carry the request id, lines after it do not."""
    code = """
configure('router', 'info', 'json')
log = get_logger('x')
with request_bound('r-1'):
    log.info('inside')
log.info('after')
"""
    inside, after = map(json.loads, _log_lines(code))
    assert inside["request_id"] == "r-1"
    assert "request_id" not in after


def test_an_exception_stays_one_json_line():
    """A traceback does not break the line format."""
    code = """
configure('router', 'info', 'json')
try:
    1 / 0
except ZeroDivisionError:
    get_logger('x').exception('step failed')
"""
    (line,) = _log_lines(code)
    assert "ZeroDivisionError" in json.dumps(json.loads(line)["exception"])


def test_a_traceback_holds_no_values_of_variables():
    """What a client sent is in the locals of our frames, and not in our logs."""
    code = """
configure('router', 'info', 'json')
def handle(prompt):
    raise ValueError('broke')
try:
    handle('my secret')
except ValueError:
    get_logger('x').exception('a handler broke')
"""
    (line,) = _log_lines(code)
    assert "broke" in line
    assert "my secret" not in json.dumps(json.loads(line)["exception"]).replace("handle('my secret')", "")


def test_console_lines_are_for_people():
    """The console format prints event and values in one readable line without colours when it is no terminal."""
    (line,) = _log_lines("configure('router', 'info', 'console')\nget_logger('x').info('ready', port=50051)")
    assert "ready" in line
    assert "port=50051" in line
    assert "\x1b" not in line
