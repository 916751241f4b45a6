"""The store adds, lists, verifies and finds models; a fetch is resumed, checked, and takes what a model needs and no more."""

import hashlib
import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from services.executor.weights import default_model, hub_download, hub_http, store
from services.executor.weights.errors import (
    ChecksumMismatch,
    FetchFailed,
    MalformedModel,
    ModelFileError,
    ModelNotFound,
)
from services.executor.weights.load import load_model
from tests.unit.executor.weights import factory
from tests.unit.executor.weights.fake_hub import COMMIT, FakeHub, serving


@pytest.fixture(scope="module")
def tiny_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a sharded model, and some that no server needs."""
    directory = tmp_path_factory.mktemp("hub")
    factory.save_directory(factory.tiny_model("llama"), directory, max_shard_size="900KB")
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert sum(name.endswith(".safetensors") for name in files) == 5
    return files | {"pytorch_model.bin": b"pickle", "onnx/model.onnx": b"other", "README.md": b"words"}


@pytest.fixture
def hub(tiny_files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A hub that has the model."""
    fake = FakeHub(dict(tiny_files))
    monkeypatch.setattr(hub_download, "RETRY_DELAY_S", 0.001)
    with serving(fake) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        yield fake


@pytest.fixture
def tiny_gguf(tmp_path: Path) -> Path:
    return factory.save_gguf(factory.tiny_model("llama"), tmp_path / "tiny.gguf", "Q8_0")


def test_an_added_model_is_listed_found_and_verified(tmp_path: Path, tiny_gguf: Path) -> None:
    """Directories and GGUF files are known by name from then on, and stay where they are."""
    directory = factory.save_directory(factory.tiny_model("qwen2"), tmp_path / "qwen")
    record = store.add("my/qwen", directory)
    store.add("tiny", tiny_gguf)
    assert [each.name for each in store.list_models()] == ["my/qwen", "tiny"]
    assert record.num_bytes == sum((directory / name).stat().st_size for name in record.files)
    assert (
        record.files["model.safetensors"] == hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()
    )
    assert (store.resolve("my/qwen"), store.resolve("tiny")) == (directory, tiny_gguf)
    assert store.resolve(str(directory)) == directory
    assert (store.served_name("my/qwen"), store.served_name(str(tiny_gguf))) == ("my/qwen", "tiny")
    assert all(verdict.is_intact for name in ("my/qwen", "tiny") for verdict in store.verify(name))


def test_a_changed_or_missing_file_is_found_by_verify(tmp_path: Path) -> None:
    """A flipped byte and a lost file are both reported, the others stay intact; sizes and times do not deceive."""
    directory = factory.save_directory(factory.tiny_model("llama"), tmp_path / "tiny")
    store.add("tiny", directory)
    weights = directory / "model.safetensors"
    stat = weights.stat()
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    (directory / "tokenizer_config.json").unlink()
    problems = {verdict.name: verdict.problem for verdict in store.verify("tiny") if not verdict.is_intact}
    assert problems == {"model.safetensors": "changed since it was added", "tokenizer_config.json": "missing"}


@pytest.mark.parametrize("name", ["", "default", "../up", "a b", "-x", "x" * 200, "a\n"])
def test_what_cannot_be_a_name_is_refused(tiny_gguf: Path, name: str) -> None:
    """Names are plain, and 'default' is taken."""
    with pytest.raises(ModelNotFound, match="cannot be a model's name"):
        store.add(name, tiny_gguf)
    assert store.list_models() == []


def test_what_is_no_model_is_not_added(tmp_path: Path, tiny_gguf: Path) -> None:
    """A damaged file, a directory without a config and a missing path never enter the list."""
    tiny_gguf.write_bytes(tiny_gguf.read_bytes()[:-100_000])
    for path in (tiny_gguf, tmp_path, tmp_path / "gone"):
        with pytest.raises(ModelFileError):
            store.add("bad", path)
    assert store.list_models() == []


def test_an_unknown_name_is_answered_with_the_known_ones(tiny_gguf: Path) -> None:
    """The error lists the names; the default model says how to get it."""
    store.add("tiny", tiny_gguf)
    with pytest.raises(ModelNotFound, match="known models: default, tiny"):
        store.resolve("other")
    with pytest.raises(ModelNotFound, match="headway model fetch default"):
        store.resolve("default")


def test_a_damaged_list_of_models_says_so(cache: Path) -> None:
    """The user's own list, damaged, is named with what to do."""
    cache.mkdir(parents=True)
    (cache / "models.json").write_text('{"models": 5}')
    with pytest.raises(MalformedModel, match=r"models\.json.*damaged"):
        store.list_models()


def test_a_fetched_model_is_whole_and_serves(hub: FakeHub) -> None:
    """A fetch takes safetensors, JSON and templates of one commit, never pickles, and the model loads."""
    seen: list[tuple[int, int]] = []
    record = store.fetch("hf:org/tiny@main", progress=lambda done, total: seen.append((done, total)))
    assert (record.name, record.source) == ("org/tiny", f"hf:org/tiny@{COMMIT}")
    fetched = {path.name for path in record.path.iterdir()}
    assert "model.safetensors.index.json" in fetched
    assert fetched.isdisjoint({"pytorch_model.bin", "README.md", "onnx"})
    assert all(name.split("/")[-1] in fetched for name, _ in hub.requests[1:])
    assert all(verdict.is_intact for verdict in store.verify("org/tiny"))
    assert load_model(store.resolve("org/tiny"), torch.float32).config.num_layers == 2
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (record.num_bytes, record.num_bytes)


def test_a_second_fetch_asks_for_nothing_but_the_commit(hub: FakeHub) -> None:
    """What is there is not fetched again; another name is just another name."""
    first = store.fetch("hf:org/tiny")
    hub.requests.clear()
    second = store.fetch("hf:org/tiny", name="again")
    assert (first.path, len(hub.requests)) == (second.path, 1)
    assert store.resolve("again") == store.resolve(f"hf:org/tiny@{COMMIT}") == first.path


def test_a_broken_connection_goes_on_where_it_broke(hub: FakeHub) -> None:
    """Connections that drop in mid-file cost no byte twice."""
    hub.break_after, hub.breaks_left = 300_000, 5
    record = store.fetch("hf:org/tiny")
    ranges = [wanted for _, wanted in hub.requests if wanted]
    assert "bytes=300000-" in ranges
    assert len(ranges) == 5
    assert all(verdict.is_intact for verdict in store.verify(record.name))


def test_a_fetch_that_was_given_up_goes_on_later(hub: FakeHub) -> None:
    """A server that delivers nothing more ends the fetch; the next one starts from the part that is there."""
    hub.break_after, hub.breaks_left = 0, 1_000
    with pytest.raises(FetchFailed, match="run it again to go on"):
        store.fetch("hf:org/tiny")
    assert len(hub.requests) == 1 + hub_download.ATTEMPTS_WITHOUT_PROGRESS
    hub.break_after, hub.breaks_left = 300_000, 1
    hub.requests.clear()
    store.fetch("hf:org/tiny")
    assert [wanted for _, wanted in hub.requests if wanted] == ["bytes=300000-"]


def test_a_server_without_ranges_is_read_from_the_start(hub: FakeHub) -> None:
    """Where a range is answered with the whole file, the file is still right."""
    hub.has_ranges = False
    hub.break_after, hub.breaks_left = 300_000, 1
    record = store.fetch("hf:org/tiny")
    assert all(verdict.is_intact for verdict in store.verify(record.name))


@pytest.mark.parametrize("name", ["config.json", "model-00002-of-00005.safetensors"])
def test_a_wrong_checksum_is_refused_and_not_kept(hub: FakeHub, name: str) -> None:
    """A file that is not what the hub listed never becomes a model; once the server is right, a fetch succeeds."""
    right = hub.files[name]
    hub.files[name] = right[:-1] + bytes([right[-1] ^ 1])
    with pytest.raises(ChecksumMismatch, match=name):
        store.fetch("hf:org/tiny")
    assert store.list_models() == []
    hub.files[name] = right
    assert store.fetch("hf:org/tiny").name == "org/tiny"


@pytest.mark.parametrize("name", ["../evil.json", "/etc/evil", "a/../../b", "a\\..\\b", "x\0y", "a//b"])
def test_names_that_leave_the_directory_are_refused(hub: FakeHub, tmp_path: Path, name: str) -> None:
    """A hub that lists such a name is not asked for anything."""
    hub.listed.append(FakeHub._listed(name, b"evil"))
    with pytest.raises(MalformedModel, match="leaves the model's directory"):
        store.fetch("hf:org/tiny")
    assert len(hub.requests) == 1


@pytest.mark.parametrize("name", ["../../evil.safetensors", "evil.bin", "a/b.safetensors", ".safetensors"])
def test_an_index_cannot_name_files_elsewhere(hub: FakeHub, tmp_path: Path, name: str) -> None:
    """Shard names are plain names of safetensors files, whether fetched or in a directory."""
    index = json.dumps({"weight_map": {"a": name}}).encode()
    hub.files["model.safetensors.index.json"] = index
    hub.listed = [FakeHub._listed(each, data) for each, data in hub.files.items()]
    with pytest.raises(MalformedModel, match="no safetensors file of the directory"):
        store.fetch("hf:org/tiny")
    directory = factory.save_directory(factory.tiny_model("llama"), tmp_path / "tiny")
    (directory / "model.safetensors.index.json").write_bytes(index)
    with pytest.raises(MalformedModel, match="no safetensors file of the directory"):
        store.add("tiny", directory)


def test_a_repository_with_pickles_alone_is_refused(hub: FakeHub) -> None:
    """Without safetensors there is nothing that Headway would load."""
    hub.listed = [each for each in hub.listed if "safetensors" not in str(each["rfilename"])]
    with pytest.raises(ModelNotFound, match="never pickle"):
        store.fetch("hf:org/tiny")


def test_impossible_sizes_and_missing_checksums_are_refused(hub: FakeHub) -> None:
    """What the hub states is checked before anything is fetched by it."""
    listed = hub.listed
    for change in ({"size": -1}, {"size": "7"}, {"size": True}, {"blobId": ""}, {"blobId": None}, {"lfs": {"size": 5}}):
        hub.listed = [each | change if each["rfilename"] == "config.json" else each for each in listed]
        with pytest.raises(MalformedModel, match="states no"):
            store.fetch("hf:org/tiny")
    hub.listed = [each | {"size": 1 << 40} if each["rfilename"] == "config.json" else each for each in listed]
    with pytest.raises(MalformedModel, match="at most"):
        store.fetch("hf:org/tiny")


def test_a_model_larger_than_the_disk_is_refused(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """No byte is fetched that there is no room for."""
    hub.listed = [
        each | {"lfs": each["lfs"] | {"size": 1 << 41}} if str(each["rfilename"]).endswith("5.safetensors") else each
        for each in hub.listed
    ]
    with pytest.raises(FetchFailed, match="free in the cache directory"):
        store.fetch("hf:org/tiny")


@pytest.mark.parametrize(
    "source", ["hf:tiny", "hf:org/tiny/x", "hf:../x", "hf:org/..", "http://x/y", "hf:org/a@", "hf:o/t@../x"]
)
def test_what_names_no_model_of_a_hub_is_refused(hub: FakeHub, source: str) -> None:
    """A source is hf:org/name, with a revision or without."""
    with pytest.raises(ModelNotFound, match="write it as"):
        store.fetch(source)
    assert hub.requests == []


@pytest.mark.parametrize(("status", "error", "words"), [(404, ModelNotFound, "HF_TOKEN"), (503, FetchFailed, "503")])
def test_a_hubs_refusal_is_put_in_words(hub: FakeHub, status: int, error: type[Exception], words: str) -> None:
    """What is not there, and a hub in trouble, are told apart."""
    hub.status = status
    with pytest.raises(error, match=words):
        store.fetch("hf:org/tiny")


def test_no_network_is_put_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address where nobody listens is the network's fault."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(FetchFailed, match="check the network"):
        store.fetch("hf:org/tiny")
    monkeypatch.setenv("HF_ENDPOINT", "ftp://example.invalid")
    with pytest.raises(FetchFailed, match="no http"):
        store.fetch("hf:org/tiny")


def test_redirects_never_leave_encryption() -> None:
    """A redirect from https to http is refused."""
    request = urllib.request.Request("https://hub.invalid/a")
    with pytest.raises(FetchFailed, match="not encrypted"):
        hub_http._SafeRedirect().redirect_request(request, None, 302, "", {}, "http://hub.invalid/a")


@pytest.mark.model
def test_the_default_model_is_listed_once_it_is_there(default_gguf: Path) -> None:
    """The default model is in the list, verified against its pinned checksum, and found by its name."""
    path = default_model.default_model_path()
    path.parent.mkdir(parents=True)
    path.symlink_to(default_gguf)
    assert [record.name for record in store.list_models()] == ["default"]
    assert store.resolve("default") == path
    assert store.served_name("default") == store.served_name(str(path)) == "SmolLM2-135M-Instruct"
    assert [verdict.is_intact for verdict in store.verify("default")] == [True]
