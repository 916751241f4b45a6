"""Prompt chains."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.router.prompt_chain import PromptChain
from services.wire.chain import block_hashes, chain_root
from services.wire.message import int32_column

ROOT = chain_root(b"salt")
IDS = st.lists(st.integers(0, 500), max_size=70)


@given(IDS.filter(bool), IDS, st.sampled_from([1, 4, 16]), st.sampled_from([4, 16]))
def test_an_extended_chain_is_the_chain_of_all_tokens(prompt, accepted, first_size, then_size):
    """Extending a prompt's chain gives what hashing all known tokens anew would, for another block size as well."""
    chain = PromptChain(int32_column(prompt), ROOT, first_size)
    known, hashes = chain.extended(accepted, then_size)
    assert known.tolist() == prompt + accepted
    assert hashes == b"".join(block_hashes(ROOT, int32_column(prompt + accepted), then_size))
    assert len(chain) == len(prompt)


async def test_a_long_prompt_is_hashed_in_a_thread_to_the_same_chain():
    """Where the hashes are computed makes no difference to them."""
    ids = int32_column(np.arange(5000))
    chain = await PromptChain.of(ids, ROOT, 16)
    assert chain.extended([], 16)[1] == b"".join(block_hashes(ROOT, ids, 16))
