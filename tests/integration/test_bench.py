"""`headway bench` against real servers: a simulated Headway over gRPC, and a small HTTP one."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from services.cli.bench.grpc_target import GrpcTarget
from services.cli.bench.lengths import Lengths
from services.cli.bench.measure import Bench
from services.cli.bench.named import named
from services.cli.bench.options import ReportOptions
from services.cli.bench.report import Report
from services.cli.bench.result import read_runs
from services.cli.bench.session import Measured
from services.cli.bench.slo import Slo
from services.cli.bench.workload import Pace, generate
from tests.support.fake_openai import FakeOpenAi
from tests.support.served import serve

SMALL = ("--requests", "12", "--input", "uniform:4:16", "--output", "uniform:3:9", "--warmup", "2")


def bench(*flags, limit_s=90.0, environment=None):
    """Runs the command to its end."""
    command = [sys.executable, "-P", "-m", "services.cli.main", "bench", *flags]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=limit_s, check=False, env={**os.environ, **(environment or {})}
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("served")) as served:
        yield served


def test_a_run_is_told_as_table_json_and_page(server, tmp_path):
    """Every request ends well with the length that was forced; all three say so, and the page asks for nothing outside."""
    json_file, page = tmp_path / "result.json", tmp_path / "page.html"
    done = bench("--address", server.address, *SMALL, "--json", str(json_file), "--html", str(page))
    assert done.returncode == 0, done.stderr
    assert "12 requests: 12 ok" in done.stdout
    assert "ITL/message (TBT)" in done.stdout
    [run] = read_runs(json_file)
    assert [record.output_tokens for record in run.records] == [record.asked_tokens for record in run.records]
    assert {record.status for record in run.records} == {"ok"}
    result = json.loads(json_file.read_text())
    assert (result["target"]["model"], result["workload"]["seed"]) == ("simulated-echo", 0)
    html = page.read_text()
    assert html.count("<svg") == 4
    assert not any(word in html for word in ("http://", "https://", "src=", "@import", "url("))


def test_an_slo_that_holds_ends_with_0_and_has_a_cost(server):
    """Limits of minutes hold on any machine; the price per hour becomes a price per request."""
    slo = "ttft_p99=100s,tbt_p99=100s,e2e_mean=100s"
    done = bench("--address", server.address, *SMALL, "--slo", slo, "--price-per-hour", "3")
    assert done.returncode == 0, done.stderr
    assert f"SLO {slo}: HOLDS" in done.stdout
    assert "ttft_p99 <= 100000 ms: holds, measured" in done.stdout
    assert "cost:" in done.stdout
    assert "per million output tokens" in done.stdout


def test_an_slo_that_fails_ends_with_1_and_has_no_cost(server):
    """No server answers within a microsecond; why there is no cost is told."""
    done = bench("--address", server.address, *SMALL, "--slo", "ttft_p99=0.001ms", "--price-per-hour", "3")
    assert done.returncode == 1, done.stderr
    assert "FAILS" in done.stdout
    assert "no cost: the SLO does not hold" in done.stdout


def test_a_price_without_an_slo_says_why_there_is_no_cost(server):
    """The run itself is good: exit code 0."""
    done = bench("--address", server.address, *SMALL, "--price-per-hour", "3")
    assert (done.returncode, "no cost without an SLO" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    "flags",
    [
        ["--slo", "ttft=1s"],
        ["--workload", "W9"],
        ["--input", "zipf:1"],
        ["--rate", "1", "--users", "3"],
        ["--think", "3"],
        ["--http", "localhost:8000"],
        ["--json", "/does/not/exist/r.json"],
        ["--trace", "/does/not/exist.jsonl"],
        ["--frobnicate"],
    ],
)
def test_a_flag_that_cannot_be_ends_with_2(flags):
    """Before anything is sent: nobody listens at the address."""
    done = bench("--address", "127.0.0.1:1", *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("headway: ")
    assert "Traceback" not in done.stderr


def test_nobody_there_ends_with_1():
    """The words say how a server is started."""
    done = bench("--address", "127.0.0.1:1")
    assert done.returncode == 1
    assert "no server at 127.0.0.1:1; headway serve starts a server" in done.stderr


def test_without_numpy_one_sentence_names_the_extra():
    """The base install has the command, and its help, and no numpy."""
    script = (
        "import sys; sys.modules.update(dict.fromkeys(['numpy', 'aiohttp', 'structlog', 'torch', 'zmq']));"
        "from services.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )

    def run(*flags):
        command = [sys.executable, "-c", script, "bench", *flags]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    done = run()
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "needs numpy" in done.stderr
    assert "[bench]" in done.stderr
    assert "needs numpy" in run("--http", "http://127.0.0.1:1").stderr
    told = run("--help")
    assert told.returncode == 0
    assert "Exit code 0" in told.stdout


def test_the_client_commands_import_no_numpy():
    """Only bench itself asks for it, and only when it runs."""
    script = (
        "import sys; from services.cli.main import main; import services.cli.bench.command; main(['bench', '--help']);"
        "assert not {'numpy', 'aiohttp'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


async def test_a_server_that_dies_midway_leaves_failures_that_are_counted(tmp_path, capsys):
    """No record is missing: what was answered before is ok, the rest failed, and an SLO on the fast ones fails."""
    shape = named("W1", 100.0)
    shape = replace(shape, num_requests=40, input_lengths=Lengths.of("4"), pace=Pace(concurrency=4))
    slo, options = Slo.of("ttft_p50=100s"), ReportOptions(json=tmp_path / "result.json")
    with serve(tmp_path) as served:
        pids, ended = [served.pid, *served.children().values()], []

        def tell(record):
            ended.append(record)
            if len(ended) == 5:
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)

        async with GrpcTarget(served.address, model="", prompts="ids") as target:
            facts = await target.facts()
            measuring = Bench(target=target, timeout_s=30.0, announce=lambda _workload, _what: tell)
            runs = await measuring.repeats(lambda repeat: generate(shape, 0, repeat), 1)
    told = {"address": facts.address, "model": facts.model}
    measured = Measured(target=told, workload={"name": "mine"}, slo=slo, runs=runs, swept=None)
    assert Report.of(measured, options).publish() == 1
    [run] = read_runs(tmp_path / "result.json")
    ends = [record.status for record in run.records]
    assert ends.count("ok") >= 5
    assert ends.count("failed") >= 40 - 5 - 2 * 4  # what was in flight may have ended on either side
    assert ends.count("ok") + ends.count("failed") == 40
    said = capsys.readouterr().out
    assert f"40 requests: {ends.count('ok')} ok, {ends.count('failed')} failed" in said
    assert "SLO ttft_p50=100s: FAILS" in said
    assert "of the requests failed; more than 1% is no service" in said


@pytest.mark.parametrize("prompts", ["text", "chat", "ids"])
def test_an_http_server_is_measured_with_the_same_ruler(tmp_path, prompts):
    """Two repeats over server-sent events, on either endpoint; the record holds what the server said."""
    json_file = tmp_path / "result.json"
    with FakeOpenAi() as http:
        done = bench("--http", http.url, *SMALL, "--prompts", prompts, "--repeats", "2", "--json", str(json_file))
        paths = {path for path, _, body in http.requests if body is not None}
    assert done.returncode == 0, done.stderr
    assert paths == {"/v1/chat/completions" if prompts == "chat" else "/v1/completions"}
    first, second = read_runs(json_file)
    assert {record.status for record in first.records + second.records} == {"ok"}
    assert "Student's t over 2 repeats" in done.stdout
    assert [record.output_tokens for record in first.records] == [record.asked_tokens for record in first.records]


def test_refusals_of_an_http_server_are_counted(tmp_path):
    """Where nothing is answered the warm-up says so; without one, every request is a refusal in the report."""
    with FakeOpenAi(status=429) as http:
        done = bench("--http", http.url, *SMALL)
        assert (done.returncode, "HTTP 429" in done.stderr) == (1, True)
        done = bench("--http", http.url, *SMALL[:-2], "--warmup", "0", "--json", str(tmp_path / "r.json"))
    assert done.returncode == 1
    assert "12 requests: 12 refused" in done.stdout
    assert "12 x refused: HTTP 429: not now" in done.stdout


def test_conversations_find_what_was_said_in_the_prefix_cache(server, tmp_path):
    """People with three turns each: later turns are longer, and mostly cached."""
    json_file = tmp_path / "result.json"
    flags = ("--workload", "W5", "--users", "3", "--requests", "9", "--turns", "3", "--think", "0.01", "--output", "8")
    done = bench("--address", server.address, *flags, "--json", str(json_file))
    assert done.returncode == 0, done.stderr
    [run] = read_runs(json_file)
    by_turn = [[record for record in run.records if record.turn == turn] for turn in range(3)]
    assert all(record.cached_tokens > record.input_tokens / 3 for record in by_turn[2])
    assert all(late.input_tokens > early.input_tokens for early, late in zip(by_turn[0], by_turn[2], strict=True))
    assert "prompt tokens cached" in done.stdout


def test_the_same_run_again_finds_its_own_prompts_and_says_so(server):
    """Its TTFT would be that of a prefix cache; with another seed nothing is found."""
    flags = ("--address", server.address, "--requests", "4", "--input", "64", "--output", "2", "--seed")
    assert "choose another --seed" not in bench(*flags, "41").stderr
    assert "choose another --seed" in bench(*flags, "41").stderr
    assert "choose another --seed" not in bench(*flags, "42").stderr


def test_a_trace_is_replayed(server, tmp_path):
    """Three rows of Mooncake's format, stretched to ten requests a second."""
    trace, json_file = tmp_path / "trace.jsonl", tmp_path / "result.json"
    rows = [{"timestamp": 1000 * n, "input_length": 600, "output_length": 3 + n, "hash_ids": [1, n]} for n in range(3)]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = ("--trace", str(trace), "--rate", "10", "--prompts", "ids", "--json", str(json_file))
    done = bench("--address", server.address, *flags)
    assert done.returncode == 0, done.stderr
    [run] = read_runs(json_file)
    assert [record.intended_s for record in run.records] == pytest.approx([0.0, 0.15, 0.3])
    assert [(record.input_tokens, record.output_tokens) for record in run.records] == [(600, 3), (600, 4), (600, 5)]


def test_a_sweep_tells_capacity_knee_and_the_load_that_holds(server, tmp_path):
    """Nine loads from 10 to 120 %, the table and the page; an SLO of minutes holds at all of them."""
    page, json_file = tmp_path / "page.html", tmp_path / "result.json"
    flags = ("--concurrency", "8", "--duration", "0.25", "--input", "8", "--output", "4", "--slo", "ttft_p99=100s")
    told = ("--price-per-hour", "1", "--html", str(page), "--json", str(json_file))
    done = bench("--address", server.address, "--sweep", *flags, *told)
    assert done.returncode == 0, done.stderr
    assert "capacity:" in done.stdout
    assert "HOLDS up to" in done.stdout
    assert "120% of capacity" in done.stdout
    assert "cost:" in done.stdout
    summary = json.loads(json_file.read_text())["summary"]
    assert [point["share"] for point in summary["points"]] == [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2]
    assert summary["slo_holds_up_to_per_s"] == summary["points"][-1]["rate_per_s"]
    assert "TTFT against load" in page.read_text()
