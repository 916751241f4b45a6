"""A target without a server."""

import asyncio

from services.cli.bench.target import Answer, Facts


class FakeTarget:
    """Answers with one message for each token, `gap_s` apart. `hooks` maps a request's index to what is awaited first."""

    def __init__(self, gap_s=0.0, hooks=None):
        self.gap_s = gap_s
        self.hooks = hooks or {}
        self.in_flight = 0
        self.most_in_flight = 0
        self.sent = []  # (index, prompts before)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def facts(self):
        return Facts("fake", "nowhere", "none")

    async def send(self, request, before, record, clock):
        self.sent.append((request.index, [each.request.index for each in before]))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(0)
            if request.index in self.hooks:
                await self.hooks[request.index]()
            for _ in range(request.output_tokens):
                await asyncio.sleep(self.gap_s)
                record.message_s.append(clock.now_s())
                record.message_tokens.append(1)
            record.output_tokens = request.output_tokens
        finally:
            self.in_flight -= 1
        return Answer(f"answer {request.index}")
