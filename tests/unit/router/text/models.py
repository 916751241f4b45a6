"""Small models for the tests of text: tokenizers trained here, and the chat templates of well-known families."""

import functools
import json

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from services.wire.execution import ModelCard
from services.wire.message import int32_column

CORPUS = (
    "the quick brown fox jumps over the lazy dog; hello world, hello there! import numpy as np\n\n def f(x): return x",
    "안녕하세요 세계, 반갑습니다. 서울은 대한민국의 수도입니다.",
    "你好，世界。今天天气很好。日本語のテキストもあります。",
    "emoji 🙂🙂 family 👩‍👩‍👧‍👦 flag 🇰🇷 skin 👍🏽 naïve café Zürich",
    "system user assistant im_start im_end < | > <| |> </s> <s> end|> <|im_",
)
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_end|>|", "<s>")

CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TRIMMING = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content | trim }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)
THINKING = (
    "{% for m in messages %}{% set content = m.content %}{% if m.role == 'assistant' and '</think>' in content %}"
    "{% set content = content.split('</think>')[-1].lstrip('\n') %}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FOLDING = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] | trim + '\n' %}"
    "{% set turns = messages[1:] %}{% else %}{% set system = '' %}{% set turns = messages %}{% endif %}"
    "{% for m in turns %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}"
    "{% endif %}{% if m.role == 'user' %}[INST] {{ (system if loop.first else '') ~ m.content }} [/INST]"
    "{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}"
)
INDENTED = """{{- bos_token }}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1, searching=true) %}
{%- for m in messages[::-1] %}
    {%- if ns.searching and m.role == 'user' and not m.content.startswith('<tool>') %}
        {%- set ns.searching = false %}
        {%- set ns.last = (messages|length - 1) - loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {% if tools is not none or 'tool_calls' in m %}
        tools
    {% elif m.reasoning is string %}
        {{ m.reasoning }}
    {% endif %}
    {{- '<|start|>' + m.role + '<|end|>\n\n' + m['content'] | trim + ('*' if loop.index0 == ns.last else '') }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\n\n' }}
{%- endif %}
"""
# Templates that would forge control tokens from harmless-looking text, were nobody to look.
PASTING = "{% for m in messages %}<|{{ m.content }}|>{% endfor %}"
REMOVING = "{% for m in messages %}<|im_start|>{{ m.content | replace('~', '') }}<|im_end|>{% endfor %}"
SHOUTING = "{% for m in messages %}<|im_start|>{{ m.content | upper }}{{ m.content[:40] }}<|im_end|>{% endfor %}"


@functools.cache
def byte_level_json() -> str:
    """A byte-level BPE, as Llama 3, Qwen and SmolLM2 have it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=list(CONTROL), initial_alphabet=alphabet, show_progress=False, min_frequency=1
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken("<think>", special=False), AddedToken("</think>", special=False)])
    tokenizer.add_special_tokens(["<｜fullwidth▁bar｜>"])
    return tokenizer.to_str()


@functools.cache
def spm_json() -> str:
    """A BPE with byte fallback, as Llama 2 and Mistral have it; what the corpus lacks is spelled in bytes."""
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<unk>", "<s>", "</s>", *byte_tokens], show_progress=False, limit_alphabet=60
    )
    tokenizer.train_from_iterator(CORPUS[:1], trainer)
    document = json.loads(tokenizer.to_str())
    document["model"] |= {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}
    document["added_tokens"] = [token for token in document["added_tokens"] if token["id"] < 3]
    stages = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    rebuilt = Tokenizer.from_str(json.dumps(document))
    rebuilt.decoder = decoders.Sequence(stages)
    return rebuilt.to_str()


@functools.cache
def unigram_json() -> str:
    """A Unigram whose vocabulary lists its control tokens as words, with a normalizer that folds wide characters."""
    words = [("<unk>", 0.0), ("</s>", -0.5)] + [(character, -5.0) for character in "▁<>/sabcdefgh"]
    tokenizer = Tokenizer(models.Unigram(words, unk_id=0, byte_fallback=False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken("</s>", special=True, normalized=True)])
    return tokenizer.to_str()


@functools.cache
def word_json() -> str:
    """Whole words joined by spaces: a decoder of no known form."""
    words = ["<unk>", "hello", "world", "how", "are", "you", "##ing", "##ed", ",", "."]
    tokenizer = Tokenizer(models.WordPiece({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece(cleanup=True)
    tokenizer.add_special_tokens(["<unk>"])
    return tokenizer.to_str()


def card(tokenizer_json: str | None = None, *, template: str = CHATML, **fields) -> ModelCard:
    """A model card around a tokenizer; the byte-level one unless said otherwise."""
    values = {
        "name": "small",
        "fingerprint": "f",
        "numerics_digest": "n",
        "batch_invariant": True,
        "context_length": 4096,
        "vocab_size": 1000,
        "eos_ids": int32_column([2]),
        "tokenizer_json": byte_level_json() if tokenizer_json is None else tokenizer_json,
        "chat_template": template,
        "special_tokens_json": json.dumps({"bos_token": "<s>", "eos_token": {"content": "<|im_end|>"}}),
    }
    return ModelCard(**values | fields)
