import pytest

from services.cli.bench.grpc_target import GrpcTarget
from services.cli.bench.http_target import HttpTarget
from services.cli.bench.options import ReportOptions, TargetOptions, WorkloadOptions
from services.cli.bench.session import Session
from services.runtime.lifecycle import BadSetting


def session(target=None, workload=None, report=None):
    return Session.of(TargetOptions(**target or {}), WorkloadOptions(**workload or {}), ReportOptions(**report or {}))


def test_the_target_is_chosen_by_the_flags():
    """gRPC, unless a URL is given."""
    assert isinstance(session().target, GrpcTarget)
    assert isinstance(session({"http": "http://127.0.0.1:1"}).target, HttpTarget)


def test_what_is_measured_is_told_whole():
    """Everything that a second person needs to do it again."""
    facts = session({"prompts": "chat"}, {"workload": "W4", "seed": 3}, {"repeats": 2}).facts
    assert facts == {
        "name": "W4",
        "pace": "closed loop, 64 at a time",
        "requests": 64,
        "input_tokens": "32",
        "output_tokens": "32",
        "shared_prefix_tokens": 512,
        "turns": 1,
        "seed": 3,
        "prompts": "chat",
        "repeats": 2,
    }


def test_repeats_are_drawn_from_the_seed(tmp_path):
    """The draw of a generated workload and that of a trace."""
    made = session(workload={"seed": 3})
    assert (made.draw(1).seed, made.draw(1).repeat) == (3, 1)
    trace = tmp_path / "t.jsonl"
    trace.write_text('{"timestamp": 0, "input_length": 5, "output_length": 1}\n' * 3)
    made = session(workload={"trace": trace, "requests": 2, "rate": 4.0})
    assert [request.arrival_s for request in made.draw(0).requests] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"report": {"slo": "fast"}}, "no objective"),
        ({"report": {"json": "/nope/r.json"}}, "json: there is no folder /nope"),
        ({"report": {"html": "/"}}, "html: / is a folder"),
        ({"workload": {"workload": "W5"}, "target": {"http": "http://x", "prompts": "ids"}}, "--prompts text or chat"),
        ({"workload": {"trace": "T"}, "report": {"sweep": True}}, "cannot be swept"),
        ({"workload": {"users": 3}, "report": {"sweep": True}}, "leave out --users"),
    ],
)
def test_what_cannot_be_is_refused_before_the_first_request(options, words, tmp_path):
    """With the flag at fault."""
    with pytest.raises(BadSetting, match=words):
        session(**options)
