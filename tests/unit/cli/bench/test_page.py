from html.parser import HTMLParser

from services.cli.bench.page import page, run_section, thinned, tokens_by_second, words_section
from services.cli.bench.summary import summarize
from tests.unit.cli.bench.records import record, run


class Checker(HTMLParser):
    """Keeps the tags that are open, and attributes that could ask for something outside."""

    void = frozenset({"meta", "polyline", "circle", "line", "rect"})

    def __init__(self):
        super().__init__()
        self.open, self.outside, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        self.outside += [name for name, _ in attrs if name in {"src", "href", "srcset", "xlink:href", "action"}]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in self.void

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def checked(html):
    checker = Checker()
    checker.feed(html)
    assert checker.open == []
    assert checker.outside == []
    return checker.texts


def test_a_page_is_whole_and_asks_for_nothing():
    """All tags are closed; there is no script, no link, no picture from elsewhere; both colour schemes are there."""
    runs = [run(record(conversation=0), record(1, status="failed", error="gone", messages=()))]
    html = page("a title", {"seed": 0}, [words_section(["HOLDS"]), run_section(summarize(runs, None), runs)])
    texts = checked(html)
    assert {"a title", "HOLDS", "2 requests: 1 ok, 1 failed", "seed", "TTFT: share of requests"} <= set(texts)
    assert "prefers-color-scheme: dark" in html
    assert 'class="failed"' in html


def test_a_run_without_an_answer_is_a_page_too():
    """There is little to draw, and nothing breaks."""
    runs = [run(record(status="refused", error="busy", messages=()))]
    texts = checked(page("t", {}, [run_section(summarize(runs, None), runs)]))
    assert "TTFT: share of requests: nothing to draw." in texts


def test_tokens_are_counted_by_the_second():
    """Two in the first, none in the second, four in the third."""
    made = run(record(messages=((0.1, 1), (0.9, 1), (2.0, 4))))
    assert tokens_by_second(made) == [(0.5, 2), (1.5, 0), (2.5, 4)]
    assert tokens_by_second(run(record(messages=(), status="failed"))) == []


def test_thinning_keeps_both_ends():
    """Evenly chosen."""
    assert thinned(range(100), 4) == [0, 33, 66, 99]
    assert thinned([1, 2], 4) == [1, 2]
