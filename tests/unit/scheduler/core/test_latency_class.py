import pytest

from services.scheduler.core.latency_class import PRESETS, STANDARD, LatencyClass, read_classes
from tests.unit.scheduler.core.helpers import Bench


def test_the_presets_are_chat_document_and_batch():
    """500 ms and 50 ms, 5 s and 100 ms, and what the others leave."""
    classes = read_classes(PRESETS, "")
    assert classes == {
        "": STANDARD,
        "chat": LatencyClass("chat", 500_000, 50_000),
        "document": LatencyClass("document", 5_000_000, 100_000),
        "batch": LatencyClass("batch", is_spare=True),
    }


def test_a_default_is_the_class_of_those_that_name_none():
    """Under its own name."""
    assert read_classes("quick=100/20/2.5", "quick")[""] == LatencyClass("quick", 100_000, 20_000, 2.5)


@pytest.mark.parametrize(
    "text",
    ["chat", "chat=500", "chat=a/b", "=1/2", "a=1/2 a=3/4", "a=1/2/0", "a=spare/x", "a=1/2147484", "a=2147484/1"],
)
def test_what_is_no_class_is_refused(text: str):
    """The setting is named."""
    with pytest.raises(ValueError, match="latency_classes"):
        read_classes(text, "")


def test_an_order_by_moments_needs_no_target():
    """Without one it counts as a chat's."""
    assert STANDARD.order_us == read_classes(PRESETS, "")["chat"].order_us == 500_000


def test_the_longest_target_fits_a_column():
    """2,147,483 ms; a request of such a class is seated."""
    bench = Bench(latency_classes="slow=2147483/2147483")
    bench.submit(1, latency_class="slow")
    assert bench.plan().admitted
    assert bench.core._lifecycle.session.running.columns.tbt_us[0] == 2_147_483_000
