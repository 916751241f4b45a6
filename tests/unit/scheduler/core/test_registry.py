from services.scheduler.core.registry import Registry
from tests.unit.scheduler.core.helpers import sequence, submit


def test_a_sequence_is_found_by_handle_and_by_request_id():
    """Until it leaves; all answers of a request in their order."""
    registry = Registry()
    registry.open(1)
    made = [sequence(2, request_id="x", answer_index=1), sequence(1, request_id="x")]
    for one in made:
        registry.enter(one)
    assert registry.find(1, 2) is made[0]
    assert registry.of_request("", "x") == [made[1], made[0]]
    assert len(registry) == 2
    registry.leave(made[0])
    assert registry.find(1, 2) is None
    assert registry.of_request("", "x") == [made[1]]


def test_a_name_is_a_duplicate_within_its_tenant_and_answer_only():
    """The same id of another tenant is another request."""
    registry = Registry()
    registry.open(1)
    registry.enter(sequence(1, request_id="x", tenant="a"))
    assert registry.is_duplicate(submit(9, request_id="x", tenant="a"))
    assert not registry.is_duplicate(submit(9, request_id="x", tenant="b"))
    assert not registry.is_duplicate(submit(9, request_id="x", tenant="a", answer_index=1))


def test_a_router_is_known_while_it_is_open():
    """Open and close are paired."""
    registry = Registry()
    registry.open(3)
    assert registry.has_router(3)
    assert registry.of_router(3) == []
    registry.close(3)
    assert registry.routers == []
