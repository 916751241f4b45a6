import json

import pytest

from services.cli.bench.result import Record, Run, document, read_runs, write


def test_a_result_is_read_as_it_was_written(tmp_path):
    """Records, refused ones too, survive the file."""
    records = [
        Record(
            index=0,
            intended_s=0.0,
            sent_s=0.1,
            end_s=0.5,
            message_s=[0.2, 0.4],
            message_tokens=[1, 2],
            output_tokens=3,
            status="ok",
        ),
        Record(index=1, intended_s=0.0, sent_s=0.1, end_s=0.2, status="refused", error="the queue is full"),
    ]
    run = Run(repeat=0, seed=7, duration_s=0.5, records=records)
    file = tmp_path / "result.json"
    write(file, document({"server": "x"}, {"name": "W1"}, [run], {}))
    assert read_runs(file) == [run]
    assert [record.first_s for record in read_runs(file)[0].records] == [0.2, None]
    assert json.loads(file.read_text())["workload"] == {"name": "W1"}
    assert [each.name for each in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": "other"}'])
def test_another_file_is_no_result(tmp_path, text):
    """The format's name decides."""
    file = tmp_path / "result.json"
    file.write_text(text)
    with pytest.raises(ValueError, match="not a result"):
        read_runs(file)
