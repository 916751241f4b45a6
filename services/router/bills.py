"""Bills: what a scheduler counted for an answer, as clients read it."""

from headway.v1 import inference_pb2 as api

from services.wire.scheduling import Bill


def bill_to_proto(bill: Bill) -> api.Bill:
    return api.Bill(
        computed_prompt_tokens=bill.computed_prompt_tokens,
        cached_tokens=bill.cached_tokens,
        recomputed_tokens=bill.recomputed_tokens,
        completion_tokens=bill.completion_tokens,
        steps=bill.steps,
        kv_block_seconds=bill.kv_block_us / 1e6,
        executor_ms=bill.executor_us / 1e3,
    )
