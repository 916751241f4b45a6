"""Promises of the repository itself: fresh stubs, contracts that only grow, an install without what is not needed."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from headway.internal.v1 import execution_pb2, scheduling_pb2
from headway.v1 import inference_pb2

ROOT = Path(__file__).parents[2]
RELEASED = ROOT / "proto" / "released.binpb"


def run(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_committed_stubs_are_those_of_the_contracts():
    """`make proto` would change nothing."""
    done = run(sys.executable, "proto/build.py", "--check")
    assert done.returncode == 0, done.stderr


def released():
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(RELEASED.read_bytes())
    return {file.name: file for file in files.file}


def current():
    files = {}
    for module in (inference_pb2, execution_pb2, scheduling_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        files[file.name] = file
    return files


def lost(old, new, where):
    """What `old` promised and `new` does not keep; additions are free."""
    missing = []
    if isinstance(old, descriptor_pb2.FileDescriptorProto):
        kinds = ("message_type", "enum_type", "service")
    elif isinstance(old, descriptor_pb2.DescriptorProto):
        missing += lost_fields(old, new, where)
        kinds = ("nested_type", "enum_type")
    elif isinstance(old, descriptor_pb2.EnumDescriptorProto):
        values = {(each.name, each.number) for each in new.value}
        return [f"{where}.{each.name}" for each in old.value if (each.name, each.number) not in values]
    else:
        methods = {each.name: each for each in new.method}
        return [f"{where}.{each.name}" for each in old.method if methods.get(each.name) != each]
    for kind in kinds:
        there = {each.name: each for each in getattr(new, kind)}
        for each in getattr(old, kind):
            name = f"{where}.{each.name}"
            missing += lost(each, there[each.name], name) if each.name in there else [name]
    return missing


def lost_fields(old, new, where):
    def promise(message, field):
        oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else ""
        return field.number, field.type, field.label, field.type_name, oneof, field.proto3_optional

    there = {field.name: promise(new, field) for field in new.field}
    return [f"{where}.{field.name}" for field in old.field if there.get(field.name) != promise(old, field)]


def test_the_contracts_only_grow():
    """Everything that the last release said is still said: no field removed, renamed, renumbered or retyped."""
    now = current()
    missing = [name for name in released() if name not in now]
    for name, file in released().items():
        missing += lost(file, now[name], name)
    assert missing == []


@pytest.mark.parametrize(
    "harm",
    [
        lambda file: file.message_type[0].field[0].__setattr__("number", 99),
        lambda file: file.message_type[0].field[0].__setattr__("type", descriptor_pb2.FieldDescriptorProto.TYPE_BYTES),
        lambda file: file.message_type[0].field.pop(),
        lambda file: file.message_type.pop(),
        lambda file: file.enum_type[0].value.pop(),
        lambda file: file.service[0].method.pop(),
        lambda file: file.service[0].method[0].__setattr__("server_streaming", False),
    ],
)
def test_a_broken_contract_is_seen(harm):
    """The check above finds each kind of harm."""
    file = current()["headway/v1/inference.proto"]
    harmed = descriptor_pb2.FileDescriptorProto()
    harmed.CopyFrom(file)
    harm(harmed)
    assert lost(file, file, "x") == []
    assert lost(file, harmed, "x") != []


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("headway.client", {"numpy", "torch", "zmq", "structlog", "services"}),
        ("services.cli.main", {"numpy", "torch", "zmq", "structlog"}),
        ("services.cli.generate", {"numpy", "torch", "zmq", "structlog"}),
        ("services.cli.chat", {"numpy", "torch", "zmq", "structlog"}),
        ("services.cli.health", {"numpy", "torch", "zmq", "structlog"}),
        ("services.cli.demo", {"numpy", "torch", "zmq", "structlog"}),
        ("services.cli.config", {"numpy", "torch", "zmq", "structlog"}),
        ("services.cli.serve", {"numpy", "torch", "zmq", "structlog"}),
        ("services.cli.model", {"numpy", "torch", "zmq", "structlog"}),
        ("services.router.main", {"torch", "zmq"}),
        ("services.scheduler.main", {"torch"}),
        ("services.executor.main", {"torch"}),
    ],
)
def test_a_part_imports_only_what_it_needs(module, unwanted):
    """In a fresh interpreter, no part brings in a library that its install does not have."""
    code = f"import sys, {module}; print(' '.join({unwanted!r} & set(sys.modules)))"
    done = run(sys.executable, "-c", code)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_the_settings_page_is_that_of_the_code():
    """docs/settings.md says what `headway config --markdown` says."""
    done = run(sys.executable, "-m", "services.cli.main", "config", "--markdown")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (ROOT / "docs" / "settings.md").read_text(), "headway config --markdown > docs/settings.md"


def test_make_alone_lists_the_words():
    """A newcomer who types `make` is told what there is."""
    listed = [line.split()[0] for line in run("make", "--no-print-directory").stdout.splitlines()]
    assert {"serve", "demo", "test", "test-deep", "check", "bench", "proto"} <= set(listed)


def test_an_index_for_torch_is_asked_for_torch_alone(tmp_path):
    """No other package's name is ever looked up there, and the version is the pinned one."""
    lines = run("make", "-n", "serve", "TORCH_INDEX=cpu", f"VENV={tmp_path}").stdout.splitlines()
    asking = [line for line in lines if "download.pytorch.org" in line]
    pinned = re.search(r"torch==[\d.]+", (ROOT / "pyproject.toml").read_text())[0]
    assert len(asking) == 1
    assert asking[0].endswith(f"--no-deps --index-url https://download.pytorch.org/whl/cpu {pinned}")
    unset = run("make", "-n", "serve", f"VENV={tmp_path}").stdout
    assert "index-url" not in unset


def test_a_wheel_has_the_contracts_and_the_types():
    """What a client in another language, or a type checker, reads of the package is installed with it."""
    package = ROOT / "proto" / "headway"
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["headway"]
    packed = {path for pattern in patterns for path in package.glob(pattern)}
    wanted = {path for ending in ("*.proto", "*.pyi", "py.typed") for path in package.rglob(ending)}
    assert len(wanted) >= 7
    assert wanted <= packed


def test_every_link_in_the_documents_leads_somewhere():
    """A path named in a root document or a page of docs/ exists."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert len(pages) >= 8
    assert broken == []
