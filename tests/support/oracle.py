"""The oracle of right tokens: Hugging Face transformers in float32, on the very weights that the engine reads."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import transformers

from services.executor.weights.layout import hf_name
from services.executor.weights.loaded_model import LoadedModel


@dataclass(frozen=True)
class Continuation:
    """What the oracle says after a prompt; greedy, up to and with a stop token."""

    tokens: list[int]
    logprobs: list[float]
    """Of each token."""
    prompt_logprobs: list[float]
    """Of the prompt's tokens from the second on."""


class Oracle:
    """A transformers model made of the tensors of a loaded Llama."""

    def __init__(self, model: LoadedModel) -> None:
        config = model.config
        assert config.rope_scaling is None, "the default model has plain rotary embeddings"
        hf_config = transformers.LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            num_key_value_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            rms_norm_eps=config.norm_eps,
            max_position_embeddings=config.context_length,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            tie_word_embeddings=config.tie_embeddings,
            attn_implementation="eager",
        )
        with torch.device("meta"):
            self._model = transformers.LlamaForCausalLM(hf_config)
        self._model.to_empty(device="cpu")
        self._model.model.rotary_emb = type(self._model.model.rotary_emb)(hf_config)
        state = {hf_name(name): tensor for name, tensor in model.tensors.items()}
        missing, unexpected = self._model.load_state_dict(state, strict=False, assign=True)
        self._model.tie_weights()
        assert not unexpected
        assert set(missing) <= {"lm_head.weight"}
        self._model.eval()
        self._eos_ids = list(config.eos_ids)

    @torch.inference_mode()
    def continuation(self, prompt: Sequence[int], max_tokens: int) -> Continuation:
        """The greedy continuation of at most `max_tokens`."""
        ids = torch.tensor([prompt])
        generated = self._model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=max_tokens,
            eos_token_id=self._eos_ids,
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
        )
        tokens = generated.sequences[0, len(prompt) :].tolist()
        return Continuation(
            tokens=tokens,
            logprobs=_logprobs(torch.cat(generated.logits), tokens),
            prompt_logprobs=_logprobs(self._model(ids).logits[0, :-1], prompt[1:]),
        )

    @torch.inference_mode()
    def distributions(self, token_ids: Sequence[int]) -> torch.Tensor:
        """For each place, the log-probabilities of all tokens that may come next."""
        return torch.log_softmax(self._model(torch.tensor([token_ids])).logits[0].double(), dim=-1)


def _logprobs(logits: torch.Tensor, tokens: Sequence[int]) -> list[float]:
    """The log-probability of each token under its row of logits."""
    rows = torch.log_softmax(logits.double(), dim=-1)
    return rows[torch.arange(len(tokens)), list(tokens)].tolist()
