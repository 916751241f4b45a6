"""The numerics digest."""

from services.executor import numerics
from services.executor.numerics import numerics_digest


def test_the_digest_names_what_bits_depend_on(monkeypatch):
    """Other weights, back end, number format or processor: another digest; nothing changed: the same."""
    first = numerics_digest("aa", "cpu", "float32")
    assert numerics_digest("aa", "cpu", "float32") == first
    assert numerics_digest("ab", "cpu", "float32") != first
    assert numerics_digest("aa", "reference", "float32") != first
    assert numerics_digest("aa", "cpu", "bfloat16") != first
    monkeypatch.setattr(numerics, "_processor", lambda: "another")
    assert numerics_digest("aa", "cpu", "float32") != first


def test_the_processor_is_the_first_one_that_the_system_lists(tmp_path):
    """Vendor, family and model are read; a system without the file gives nothing."""
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nvendor_id\t: V\ncpu family\t: 6\nmodel\t\t: 7\nmodel name\t: N\n\nmodel : 9\n")
    assert numerics._processor(cpuinfo) == "V 6 7"
    assert numerics._processor(tmp_path / "absent") == ""
