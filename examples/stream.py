"""Streams one answer and prints what it cost."""

import argparse

from headway.client import Client
from headway.v1 import inference_pb2 as v1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="127.0.0.1:50051")
    parser.add_argument("prompt", nargs="?", default="Write one sentence about trains.")
    arguments = parser.parse_args()

    with Client(arguments.address) as client:
        stream = client.generate(
            [{"role": "user", "content": arguments.prompt}], max_tokens=48, temperature=0.7, seed=1
        )
        for delta in stream:
            print(delta.text, end="", flush=True)
            if delta.finished:
                usage, timings = delta.finished.usage, delta.finished.timings
                print(f"\n\nended by {v1.FinishReason.Name(delta.finished.reason)}")
                print(f"{usage.prompt_tokens} prompt tokens, of them {usage.cached_tokens} cached")
                print(f"{usage.completion_tokens} tokens, the first after {timings.time_to_first_token_s:.3f} s")


if __name__ == "__main__":
    main()
