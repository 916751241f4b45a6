"""The command line, each command through its front door; servers are scripted."""

import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2_grpc
from headway.v1 import inference_pb2 as v1

from services.cli.config import ALL
from services.cli.main import main
from services.cli.plan import make_plan
from services.cli.serve_settings import ServeSettings
from services.cli.settings_page import page
from services.executor.weights import registry
from services.executor.weights.registry import ModelRecord
from tests.support.fake_inference import FakeInference, answer, refuse, reply


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def tiny_config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA_70B))
    return str(path)


MODEL = reply(v1.GetModelResponse(name="fake"))
LLAMA_70B = {
    "model_type": "llama", "vocab_size": 128256, "hidden_size": 8192, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 8192, "rope_theta": 500000.0, "tie_word_embeddings": False,
}  # fmt: skip


def test_generate_streams_the_answer(capsys):
    """The answer goes to standard output as it is, the statistics to standard error."""
    with FakeInference(MODEL, answer("héllo")) as server:
        code = main(["generate", "hi", "--address", server.address, "--stats", "--max-tokens", "5", "--seed", "3"])
    output = capsys.readouterr()
    assert (code, output.out) == (0, "héllo\n")
    assert output.err.startswith("5 tokens, TTFT ")
    request = server.requests[1]
    assert (request.stop.max_tokens, request.sampling.seed) == (5, 3)
    assert request.chat.messages[0].content[0].text == "hi"


def test_generate_reads_standard_input_and_can_go_without_the_template(capsys, monkeypatch):
    """A prompt of "-" is read from standard input; --raw sends it as text."""
    give_input(monkeypatch, b"Once")
    with FakeInference(MODEL, answer("x")) as server:
        assert main(["generate", "-", "--raw", "--address", server.address]) == 0
    assert server.requests[1].parts.parts[0].text == "Once"
    assert capsys.readouterr().out == "x\n"


def give_input(monkeypatch, data):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_input_that_is_no_text_is_told(capsys, monkeypatch):
    """Bytes that are not UTF-8 end with 1 and words; nothing is sent."""
    give_input(monkeypatch, b"\xff\xfe\x80")
    with FakeInference(MODEL) as server:
        assert main(["generate", "-", "--address", server.address]) == 1
        assert server.requests == []
    assert capsys.readouterr().err == "headway: standard input is not UTF-8: byte 0 cannot be read\n"


@pytest.mark.parametrize("command", [["generate", "hi"], ["chat"]])
@pytest.mark.parametrize(
    ("flags", "field"),
    [
        (["--seed", "-3"], "sampling.seed: must be from 0 to 18446744073709551615"),
        (["--seed", "99999999999999999999"], "sampling.seed"),
        (["--max-tokens", "99999999999"], "stop.max_tokens"),
        (["--top-k", "99999999999"], "sampling.top_k"),
    ],
)
def test_a_number_that_no_request_can_hold_ends_with_2(capsys, command, flags, field):
    """The field is named; a conversation does not begin."""
    with FakeInference(MODEL) as server:
        assert main([*command, *flags, "--address", server.address]) == 2
    assert f"headway: {field}" in capsys.readouterr().err


def test_an_output_that_nobody_reads_ends_quietly():
    """`headway generate ... | head` shows no traceback."""
    with FakeInference(MODEL, answer("x" * 50)) as server:
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [sys.executable, "-m", "services.cli.main", "generate", "hi", "--address", server.address],
            stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_request_that_fails_ends_with_1_and_the_reason(capsys):
    """What the server said is told on standard error."""
    with FakeInference(MODEL, refuse(grpc.StatusCode.NOT_FOUND, "no such model; served: a")) as server:
        assert main(["generate", "hi", "--model", "b", "--address", server.address]) == 1
    assert capsys.readouterr().err == "headway: no such model; served: a\n"


def test_a_server_that_is_not_there_is_told(capsys):
    """Without a server, a client command fails soon and says so."""
    assert main(["generate", "hi", "--address", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == "headway: no server at 127.0.0.1:1; start one with: headway serve\n"


def test_chat_answers_until_the_input_ends(capsys, monkeypatch):
    """Each line is a turn; an error ends the turn, not the conversation."""
    lines = iter(["hi", "", "again"])
    monkeypatch.setattr("builtins.input", lambda _prompt: next(lines, None) or _eof_or_blank(lines))
    failing = refuse(grpc.StatusCode.INTERNAL, "broken")
    with FakeInference(MODEL, MODEL, answer("hello"), failing) as server:
        assert main(["chat", "--address", server.address, "--system", "be brief"]) == 0
    output = capsys.readouterr()
    assert "hello" in output.out
    assert "headway: broken" in output.err
    assert [each.role for each in server.requests[3].chat.messages] == ["system", "user", "assistant", "user"]


def _eof_or_blank(lines):
    """The empty line, once; then the end of input."""
    if lines.__length_hint__():
        return ""
    raise EOFError


def test_health_is_an_exit_code(capsys):
    """A server without a health service, or none at all, is not healthy."""
    with FakeInference(answer("x")) as server:
        assert main(["health", "--address", server.address]) == 1
    assert main(["health", "--address", "127.0.0.1:1", "--timeout-s", "0.5"]) == 1
    assert main(["health", "--address", "127.0.0.1:1", "--service", "bogus"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].endswith("has no health service")
    assert said[1:] == ["headway: no answer: no server at 127.0.0.1:1"] * 2


def test_health_of_an_unknown_service_says_so(capsys):
    """A server that answers is not said to be silent: the reason is the name."""

    class Health(health_pb2_grpc.HealthServicer):
        def Check(self, request, context):  # noqa: N802 - the contract's name
            context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")

    server = grpc.server(ThreadPoolExecutor(1))
    health_pb2_grpc.add_HealthServicer_to_server(Health(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        assert main(["health", "--address", f"127.0.0.1:{port}", "--service", "bogus"]) == 1
    finally:
        server.stop(None).wait()
    assert "knows no service 'bogus'" in capsys.readouterr().err


def test_demo_streams_eight_prompts_at_once_and_shows_the_latencies(capsys):
    """All eight are live together; the table has a row for each, and the exit code is 0."""
    with FakeInference(answer("some words")) as server:
        assert main(["demo", "--address", server.address]) == 0
    output = capsys.readouterr().out
    assert len(server.requests) == 8
    assert output.count("some words") == 8
    assert all(column in output for column in ("TTFT", "TBT mean", "TBT max", "tokens/s"))


def test_demo_fails_when_a_prompt_did(capsys):
    """One answer that failed makes the exit code 1 and is named."""
    failing = refuse(grpc.StatusCode.INTERNAL, "broken")
    with FakeInference(failing, answer("fine")) as server:
        assert main(["demo", "--address", server.address]) == 1
    assert capsys.readouterr().err.count("broken") == 1


def test_config_shows_values_and_origins(capsys, monkeypatch):
    """Each setting of each process is shown with where it comes from."""
    monkeypatch.setenv("HEADWAY_ROUTER_MAX_N", "3")
    assert main(["config"]) == 0
    output = capsys.readouterr().out
    rows = [line.split() for line in output.splitlines()]
    assert ["max_n", "3", "environment", "HEADWAY_ROUTER_MAX_N"] in rows
    assert ["token_budget", "512", "default"] in rows
    assert all(f"\n{process} " in f"\n{output}" for process in ("router", "scheduler", "executor", "serve"))


def test_every_setting_says_what_it_means():
    """No row of the settings page is without a meaning, and no default is Python's spelling."""
    rows = [row.split(" | ") for row in page(ALL).splitlines() if row.startswith("| `")]
    assert len(rows) > 60
    assert [row[0] for row in rows if not row[3].strip(" |")] == []
    assert [row[1] for row in rows if "(" in row[1] or "True" in row[1]] == []


def test_config_of_one_process_takes_its_flags(capsys):
    """A flag is an origin as well."""
    assert main(["config", "scheduler", "--token-budget", "7"]) == 0
    assert ["token_budget", "7", "flag"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("HEADWAY_ROUTER_MAX_M", "3", "did you mean HEADWAY_ROUTER_MAX_N"),
        ("HEADWAY_ROUTER_MAX_N", "many", "HEADWAY_ROUTER_MAX_N"),
        ("HEADWAY_SCHEDULER_TOKEN_BUDGET", "0", "token_budget must be at least 1"),
    ],
)
def test_config_check_ends_with_2_and_the_reason(capsys, monkeypatch, name, value, words):
    """An unknown variable, or a value that cannot be, ends with exit code 2; nothing bad with 0."""
    assert main(["config", "--check"]) == 0
    monkeypatch.setenv(name, value)
    assert main(["config", "--check"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert words in output.err


@pytest.mark.parametrize(
    "arguments",
    [["frobnicate"], ["serve", "--bogus"], ["serve", "--port", "99999"], ["serve", "--fake", "--model", "x"],
     ["serve", "router", "--max-n", "0"], ["generate"], ["serve", "--model", "/does/not/exist", "--port", "0"]],
)  # fmt: skip
def test_a_bad_command_line_ends_with_2(capsys, arguments):
    """What cannot be asked is refused with one line that says why."""
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("headway: ")
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ROUTER_SALT_SECRET_FILE", "/nope", "salt_secret_file: cannot read /nope"),
        ("EXECUTOR_CURVE_KEY_FILE", "/nope", "cannot read the CURVE key file"),
        ("SCHEDULER_EXECUTOR_ENDPOINT", "tcp://127.0.0.1:5", "needs CURVE keys"),
        ("EXECUTOR_SCHEDULER_ENDPOINT", "tcp://127.0.0.1:5", "needs CURVE keys"),
        ("EXECUTOR_MODEL", "/nope", "no model is called '/nope'"),
        ("SERVE_MODEL", "hf:nope", "names no model of a hub"),
        ("SERVE_READY_FILE", "/nope/x", "there is no folder /nope"),
        ("ROUTER_LISTEN", "unix:/nope/x", "listen: there is no folder /nope"),
        ("SCHEDULER_RECORD", "/tmp", "is a folder"),
    ],
)
def test_config_check_opens_the_files_that_are_named(capsys, monkeypatch, name, value, words):
    """With what a server would not start with, the check does not end with 0."""
    monkeypatch.setenv(f"HEADWAY_{name}", value)
    assert main(["config", "--check"]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--ready-file", "/nope/x"], "ready_file: there is no folder /nope"),
        (["--listen", "0.0.0.0:0"], "can be reached from other machines; allow_public permits that"),
        (["--listen", "unix:/nope/s.sock"], "cannot listen on unix:/nope/s.sock: there is no folder /nope"),
        (["--kv-memory-mb", "0"], "kv_memory_mb must be at least 1"),
    ],
)
def test_serve_refuses_before_anything_starts(capfd, flags, words):
    """A place that cannot be ends with 2 and nothing but the reason."""
    assert (
        main(["serve", "--fake", "--port", "0", *flags] if "unix" not in flags[1] else ["serve", "--fake", *flags]) == 2
    )
    said = capfd.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert words in said.err


def test_serve_passes_its_leave_for_public_addresses_on():
    """With --allow-public the router is told so, and the address is taken as it is."""
    plan = make_plan(ServeSettings(fake=True, listen="0.0.0.0:0", allow_public=True))
    assert "--allow-public" in plan.flags(Path("/run"))["router"]
    assert "--allow-public" not in plan.flags(Path("/run"))["scheduler"]


def test_inspect_says_that_70b_does_not_fit_80_gb(capsys, tiny_config):
    """From config.json alone: KV bytes per token, what fits, the smallest tensor parallelism."""
    assert main(["model", "inspect", tiny_config, "--memory", "80GB"]) == 1
    output = capsys.readouterr().out
    assert "does not fit" in output
    assert "327,680" in output  # 2 x 80 layers x 8 heads x 128 x 2 bytes
    assert "smallest tensor parallelism  4 devices of 80.0 GB" in output
    assert "(bfloat16)" in output
    assert main(["model", "inspect", tiny_config, "--memory", "80GB", "--tp", "2"]) == 1
    half = capsys.readouterr().out
    assert (
        "70.6 GB of weights and a sequence of 2,048 on each; 69.0 GB usable: 90%, less 3.0 GB for the runtime" in half
    )
    assert "on each of 2 devices" in half
    assert main(["model", "inspect", tiny_config, "--memory", "800GB"]) == 0
    assert "1 device of 800.0 GB" in capsys.readouterr().out
    assert main(["model", "inspect", tiny_config, "--memory", "80GB", "--tp", "4"]) == 0
    assert "sequences of 2,048" in capsys.readouterr().out


def test_inspect_of_no_model_ends_as_serve_does(capsys):
    """Exit code 1 is kept for a model that does not fit."""
    assert main(["model", "inspect", "nope"]) == 2
    assert "no model is called 'nope'" in capsys.readouterr().err


def test_inspect_refuses_what_is_no_amount_of_memory(capsys, tiny_config):
    """A bad flag value ends with 2."""
    assert main(["model", "inspect", tiny_config, "--memory", "lots"]) == 2
    assert "no amount of memory" in capsys.readouterr().err


def test_serve_names_a_broken_model_before_it_starts(capsys, tmp_path, tiny_config):
    """A header that cannot be read, a config without weights, and a name that is none end with 2 and one line."""
    garbage = tmp_path / "garbage.gguf"
    garbage.write_bytes(b"GGUF" + b"\xff" * 100)
    plain = tmp_path / "plain.gguf"
    plain.write_bytes(b"no model")
    for model in (str(garbage), str(plain), tiny_config, "hf:foo"):
        assert main(["serve", "--port", "0", "--model", model]) == 2
        said = capsys.readouterr().err
        assert (said.startswith("headway: model: "), said.count("\n")) == (True, 1)


def test_a_fetch_of_what_is_here_says_so(capsys, monkeypatch):
    """Without a byte to fetch, nothing is said to be fetched; otherwise the first byte says it."""
    record = ModelRecord(name="m", path=Path("/m"), source="hf:a/m", num_bytes=5, files={})
    monkeypatch.setattr("services.executor.weights.store.fetch", lambda *_: record)
    assert main(["model", "fetch", "hf:a/m"]) == 0
    assert capsys.readouterr() == ("m: already here, 5 B in /m\n", "")
    monkeypatch.setattr("services.executor.weights.store.fetch", lambda _s, _n, tell: tell(5, 5) or record)
    assert main(["model", "fetch", "hf:a/m"]) == 0
    said = capsys.readouterr()
    assert said.out == "m: 5 B in /m\n"
    assert said.err == "headway: fetching hf:a/m\nheadway: fetched hf:a/m\n"


def test_a_hub_that_cannot_be_reached_is_told_in_plain_words(capsys, monkeypatch):
    """The reason is the network's, without the library around it."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert main(["model", "fetch", "hf:a/m"]) == 1
    assert "the hub cannot be reached (Connection refused)" in capsys.readouterr().err


def test_a_list_through_a_pipe_is_not_cut(tmp_path):
    """A path is whole, however long it is."""
    long = tmp_path / ("long-" * 30) / "m"
    record = ModelRecord(name="m", path=long, source="local", num_bytes=5, files={})
    registry.put(record)
    command = [sys.executable, "-m", "services.cli.main", "model", "list"]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert str(long) in done.stdout


def test_a_model_that_is_not_here_is_told(capsys):
    """The list says how to get one; verify and add of what is not here fail with 1."""
    assert main(["model", "list"]) == 0
    assert "headway model fetch" in capsys.readouterr().out
    assert main(["model", "verify"]) == 1
    assert main(["model", "add", "mine", "/does/not/exist"]) == 1
    assert capsys.readouterr().err.count("headway: ") == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["serve"], 2, "needs structlog, which is not installed; in a clone of Headway: make serve, or pip install -e"),
        (["serve", "--fake"], 2, "needs structlog"),
        (["serve", "router"], 2, "which is not installed"),
        (["demo"], 2, "headway: this command needs structlog"),
        (["config"], 0, ""),
        (["config", "--check"], 0, ""),
        (["model", "list"], 0, ""),
        (["frobnicate"], 2, "no command is called 'frobnicate'"),
        (["health", "--address", "127.0.0.1:1"], 1, "no answer"),
        (["--help"], 0, ""),
    ],
)
def test_the_base_install_says_what_a_command_lacks(arguments, code, words):
    """Without the server's libraries client commands work, and the others say what to install."""
    script = (
        "import sys; sys.modules.update(dict.fromkeys(['structlog', 'numpy', 'torch', 'zmq']));"
        f"from services.cli.main import main; sys.exit(main({arguments!r}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_serve_passes_the_way_of_batching_on():
    """To the scheduler, and only where it was given: unset, the scheduler's own setting holds."""
    flags = make_plan(ServeSettings(fake=True, port=0, batching="static")).flags(Path("/run"))
    assert flags["scheduler"][-4:-2] == ["--batching", "static"]
    assert "--batching" not in make_plan(ServeSettings(fake=True, port=0)).flags(Path("/run"))["scheduler"]
