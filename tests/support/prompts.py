"""24 prompts: prose, code, chat, Hangul, CJK, emoji; cut to lengths around every multiple of the block size."""

from collections.abc import Callable, Sequence

_CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
_ESSAY = """The bus line runs from the harbour to the hills, and the gap between one bus and the next is what its riders
feel. When every bus keeps its headway, nobody waits long and no bus is full; when one falls behind, more people wait for
it, it falls further behind, and the next one catches up with it. So the dispatcher does not ask where each bus is, but
how far it is from the one ahead. A short wait at a terminal costs a minute; a bunch of three buses costs the whole hour.
People who plan such lines learn to trade a little speed for a lot of regularity, because a passenger remembers the worst
wait of the month and forgets the average. The same is true of machines that answer questions for many people at once: """
_CODE = """import heapq

def dijkstra(graph, source):
    distance = {source: 0}
    queue = [(0, source)]
    while queue:
        so_far, node = heapq.heappop(queue)
        if so_far > distance[node]:
            continue
        for neighbour, weight in graph[node].items():
            candidate = so_far + weight
            if candidate < distance.get(neighbour, float("inf")):
                distance[neighbour] = candidate
                heapq.heappush(queue, (candidate, neighbour))
    return distance

def test_dijkstra():
    graph = {"a": {"b": 1, "c": 4}, "b": {"c": 2}, "c": {}}
    assert dijkstra(graph, "a") == """
_HANGUL = "안녕하세요. 오늘 날씨가 아주 좋네요. 서울에서 부산까지 기차로 얼마나 걸리나요? 저는 내일 아침에 출발합니다. "
_CJK = "东京的春天很美,樱花盛开。日本語の文章も少し混ぜてみましょう。今日はとても良い天気です。"
_EMOJI = "Party time 🎉👩‍👩‍👧‍👦🏳️‍🌈 let's go 🚀🚀🚀 café naïve Ωmega ∑ 你好 👍🏽 and then we "
_JSON = '{"name": "Ada", "born": 1815, "works": ["notes", "letters"], "friends": [{"name": "Charles", "born": 1791}, '
_QUESTIONS = (
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "List three prime numbers larger than 10 and explain why each of them is prime.",
    "Translate to German: the train is late again.",
)

# (text, tokens to keep); None keeps all.
_CUTS: tuple[tuple[str, int | None], ...] = (
    (_ESSAY, 1),
    (_ESSAY, 2),
    (_ESSAY, 15),
    (_CODE, 16),
    (_HANGUL, 17),
    (_EMOJI, 31),
    (_ESSAY, 32),
    (_CJK, 33),
    (_CODE, 47),
    (_HANGUL, 48),
    (_CJK, 49),
    (_ESSAY, 63),
    (_CODE, 64),
    (_HANGUL, 65),
    (_ESSAY, 127),
    (_CODE, 128),
    (_HANGUL + _ESSAY, 129),
    (_CODE + _ESSAY, 257),
    (_EMOJI, None),
    (_JSON, None),
    *((_CHAT.format(question), None) for question in _QUESTIONS),
)
assert len(_CUTS) == 24


def prompts(encode: Callable[[str], Sequence[int]]) -> list[list[int]]:
    """The token ids of all 24; `encode` must know the chat tokens by name."""
    made = []
    for text, length in _CUTS:
        ids = list(encode(text))
        assert length is None or len(ids) >= length, f"{length} tokens asked for, the text has {len(ids)}"
        made.append(ids[:length])
    return made
