"""GGUF files are read strictly: a hostile one ends in ModelFileError, at once and in little memory."""

import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.executor.weights import gguf_model, gguf_tokenizer
from services.executor.weights.errors import MalformedModel, ModelFileError, ModelNotFound, UnsupportedModel
from services.executor.weights.gguf_file import MAX_ARRAY_ITEMS, GgufFile, is_gguf
from tests.unit.executor.weights import factory


def string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def pair(key: str, kind: int, value: bytes) -> bytes:
    return string(key) + struct.pack("<I", kind) + value


def tensor(name: str = "a", sizes: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0) -> bytes:
    return string(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)


def write(
    path: Path, *, magic: bytes = b"GGUF", version: int = 3, pairs: tuple[bytes, ...] = (), tensors: tuple[bytes, ...] = (),
    num_pairs: int | None = None, num_tensors: int | None = None, data: bytes = bytes(256), alignment: int = 32,
) -> Path:  # fmt: skip
    """A GGUF file of the parts given, right or wrong."""
    counts = (len(tensors) if num_tensors is None else num_tensors, len(pairs) if num_pairs is None else num_pairs)
    head = magic + struct.pack("<IQQ", version, *counts) + b"".join(pairs) + b"".join(tensors)
    path.write_bytes(head + bytes(-len(head) % alignment) + data)
    return path


def read(path: Path) -> GgufFile:
    with GgufFile(path) as file:
        return file


def test_a_sound_file_gives_metadata_and_tensors(tmp_path: Path) -> None:
    """Every kind of value and a tensor's shape, type and bytes are read."""
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_string("s", "héllo")
    writer.add_bool("b", True)
    writer.add_int32("i", -5)
    writer.add_float64("f", 0.5)
    writer.add_array("texts", ["x", "", "zz"])
    writer.add_array("numbers", [1, 2, 3])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    metadata = read(tmp_path / "a.gguf").metadata
    assert {key: metadata[key] for key in ("s", "b", "i", "f", "texts", "numbers")} == {
        "s": "héllo",
        "b": True,
        "i": -5,
        "f": 0.5,
        "texts": ["x", "", "zz"],
        "numbers": [1, 2, 3],
    }
    path = write(tmp_path / "b.gguf", tensors=(tensor("w", (4, 2)),), data=bytes(range(32)))
    with GgufFile(path) as file:
        info = file.tensors["w"]
        buffer = bytearray(8)
        file.read_into(info, 8, buffer)
        assert (info.shape, info.storage.name, bytes(buffer)) == ((2, 4), "F32", bytes(range(8, 16)))
        with pytest.raises(IndexError):
            file.read_into(info, 28, buffer)
    assert is_gguf(path)
    assert not is_gguf(tmp_path)


BAD: dict[str, tuple[Callable[[Path], Path], type[ModelFileError], str]] = {
    "other magic": (lambda p: write(p, magic=b"GGML"), MalformedModel, "letters GGUF"),
    "almost empty": (lambda p: write(p, magic=b"GG", data=b"", alignment=1), MalformedModel, "letters GGUF"),
    "version 1": (lambda p: write(p, version=1), UnsupportedModel, "version 1 .*2 and 3"),
    "big-endian": (lambda p: write(p, version=3 << 24), UnsupportedModel, "big-endian"),
    "many tensors": (lambda p: write(p, num_tensors=1 << 40), MalformedModel, "tensors"),
    "many keys": (lambda p: write(p, num_pairs=1 << 62), MalformedModel, "metadata keys"),
    "missing keys": (lambda p: write(p, num_pairs=5000), MalformedModel, "ends inside|unknown|twice"),
    "long key": (lambda p: write(p, pairs=(struct.pack("<Q", 1 << 60),)), MalformedModel, "string of"),
    "bad text": (lambda p: write(p, pairs=(pair("k", 8, string(b"\xff\xfe")),)), MalformedModel, "UTF-8"),
    "value type": (lambda p: write(p, pairs=(pair("k", 13, bytes(8)),)), MalformedModel, "unknown value type 13"),
    "boolean 2": (lambda p: write(p, pairs=(pair("k", 7, b"\2"),)), MalformedModel, "boolean"),
    "nested array": (
        lambda p: write(p, pairs=(pair("k", 9, struct.pack("<IQ", 9, 1) + bytes(64)),)),
        MalformedModel,
        "unknown value type 9",
    ),
    "huge array": (
        lambda p: write(p, pairs=(pair("k", 9, struct.pack("<IQ", 4, 1 << 61)),)),
        MalformedModel,
        "more than",
    ),
    "array beyond the file": (
        lambda p: write(p, pairs=(pair("k", 9, struct.pack("<IQ", 12, MAX_ARRAY_ITEMS)),)),
        MalformedModel,
        "ends inside",
    ),
    "key twice": (lambda p: write(p, pairs=(pair("k", 0, b"\1"),) * 2), MalformedModel, "'k' occurs twice"),
    "tensor twice": (lambda p: write(p, tensors=(tensor(),) * 2), MalformedModel, "'a' occurs twice"),
    "no dimensions": (lambda p: write(p, tensors=(tensor(sizes=()),)), MalformedModel, "0 dimensions"),
    "five dimensions": (lambda p: write(p, tensors=(tensor(sizes=(1,) * 5),)), MalformedModel, "5 dimensions"),
    "size 0": (lambda p: write(p, tensors=(tensor(sizes=(32, 0)),)), MalformedModel, "impossible shape"),
    "overflow": (lambda p: write(p, tensors=(tensor(sizes=(1 << 32, 1 << 32)),)), MalformedModel, "impossible shape"),
    "half a block": (lambda p: write(p, tensors=(tensor(sizes=(33,), kind=8),)), MalformedModel, "for Q8_0"),
    "known type": (lambda p: write(p, tensors=(tensor(kind=16),)), UnsupportedModel, "IQ2_XXS; supported types: F32"),
    "unknown type": (lambda p: write(p, tensors=(tensor(kind=99),)), MalformedModel, "unknown type 99"),
    "unaligned": (lambda p: write(p, tensors=(tensor(offset=8),)), MalformedModel, "not aligned to 32"),
    "behind the end": (lambda p: write(p, tensors=(tensor(offset=1 << 63),)), MalformedModel, "behind the end"),
    "one byte short": (lambda p: write(p, tensors=(tensor(),), data=bytes(127)), MalformedModel, "behind the end"),
    "overlap": (
        lambda p: write(p, tensors=(tensor("a"), tensor("b", offset=96))),
        MalformedModel,
        "'a' and 'b' overlap",
    ),
    "alignment 3": (
        lambda p: write(p, pairs=(pair("general.alignment", 4, struct.pack("<I", 3)),)),
        MalformedModel,
        "alignment 3",
    ),
    "alignment text": (
        lambda p: write(p, pairs=(pair("general.alignment", 8, string("32")),)),
        MalformedModel,
        "alignment '32'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, case: str) -> None:
    """Each way to break the format is refused with its own words."""
    build, error, words = BAD[case]
    with pytest.raises(error, match=words):
        read(build(tmp_path / "bad.gguf"))


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    """A missing file is its caller's mistake."""
    with pytest.raises(ModelNotFound, match=r"gone\.gguf"):
        GgufFile(tmp_path / "gone.gguf")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A whole small model as GGUF."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return factory.save_gguf(factory.tiny_model("llama3"), path, "Q8_0").read_bytes()


FUZZ = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])


def use(path: Path) -> None:
    """All that is done with a file before its tensors are read."""
    with GgufFile(path) as file:
        gguf_model.check_tensors(file, gguf_model.config_of(file))
        gguf_model.chat_template_of(file)
        gguf_tokenizer.special_tokens(file.metadata)
        gguf_tokenizer.tokenizer_json(file.metadata)


def survives(path: Path) -> None:
    """Uses the file and expects a result or a ModelFileError, soon and in bounded memory."""
    started = time.monotonic()
    tracemalloc.start()
    try:
        use(path)
    except ModelFileError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 50_000_000
    assert time.monotonic() - started < 10


@FUZZ
@given(st.data())
def test_changed_bytes_end_in_a_model_file_error(sound: bytes, tmp_path: Path, data: st.DataObject) -> None:
    """Whatever bytes of the header are changed, only ModelFileError comes out, soon and in little memory."""
    header_bytes = sound.index(b"token_embd.weight") + 4000
    content = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(header_bytes, len(content)) - 8))
        new = data.draw(
            st.one_of(
                st.binary(min_size=1, max_size=8),
                st.integers(0, 2**64 - 1).map(lambda number: struct.pack("<Q", number)),
                st.sampled_from([b"\xff" * 8, bytes(8), b"\xff\xff\xff\x7f", struct.pack("<Q", 1 << 63)]),
            )
        )
        content[at : at + len(new)] = new
    path = tmp_path / "fuzz.gguf"
    path.write_bytes(content)
    survives(path)


@FUZZ
@given(st.floats(0, 1))
def test_cut_files_end_in_a_model_file_error(sound: bytes, tmp_path: Path, share: float) -> None:
    """A file that was cut off anywhere is refused."""
    path = tmp_path / "cut.gguf"
    path.write_bytes(sound[: int(share * (len(sound) - 40))])
    with pytest.raises(ModelFileError):
        use(path)


def test_the_sound_file_is_usable(sound: bytes, tmp_path: Path) -> None:
    """The file that the fuzz tests damage is itself sound."""
    path = tmp_path / "sound.gguf"
    path.write_bytes(sound)
    use(path)
