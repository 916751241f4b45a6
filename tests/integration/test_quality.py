"""Quality: what rounding weights and activations to few bits costs, on real text, against float32 on the same weights."""

from pydoc_data import topics

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from kernels.cpu import library
from services.executor.backends.cpu import CpuBackend, pack_model
from services.executor.weights.load import open_model
from tests.support.steps import work_of

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

TEXTS = ("typesseq", "exceptions", "import", "naming", "class")  # prose about Python, some 10,000 words of it
TOKENS_EACH = 420


def backend(path, dtype):
    """The default model in a precision, and its tokenizer."""
    with open_model(path) as opened:
        model = pack_model(library.load(), opened.description.config, opened.weights, dtype)
    return CpuBackend(model, -(-TOKENS_EACH // 16), library.load()), Tokenizer.from_str(
        opened.description.tokenizer_json
    )


def logprobs(backend, ids):
    """[tokens, vocabulary] in float64."""
    work = [work_of(ids, range(-(-len(ids) // 16)))]
    logits = backend.logits(backend.forward(work, np.arange(len(ids), dtype=np.int32)))
    return torch.log_softmax(torch.from_numpy(logits).double(), dim=-1)


@pytest.mark.parametrize(
    ("dtype", "most_kl", "least_agreement"),
    [("auto", 0.01, 0.97), pytest.param("bfloat16", 0.001, 0.985, marks=pytest.mark.deep)],
)
def test_rounding_changes_little(default_model, dtype, most_kl, least_agreement):
    """Mean KL divergence to float32, and how often the best token is the same, over more than 2,000 tokens."""
    (exact, tokenizer), (rounding, _) = backend(default_model, "float32"), backend(default_model, dtype)
    divergences, agreements = [], []
    for text in TEXTS:
        ids = tokenizer.encode(topics.topics[text]).ids[:TOKENS_EACH]
        right, rounded = logprobs(exact, ids), logprobs(rounding, ids)
        divergences.append((right.exp() * (right - rounded)).sum(dim=-1))
        agreements.append(right.argmax(dim=-1) == rounded.argmax(dim=-1))
    divergence, agreement = torch.cat(divergences), torch.cat(agreements).double()
    print(f"{dtype}: {len(divergence)} tokens, mean KL {divergence.mean():.5f}, agreement {agreement.mean():.4f}")
    assert len(divergence) >= 2000
    assert divergence.mean() < most_kl
    assert agreement.mean() >= least_agreement
