"""Goes on with an answer whose stream was lost, in another process if need be.

The client does this by itself when a connection breaks. By hand it is needed where the reader itself was lost: whoever
kept the tokens, the seed and the fingerprint can ask for the rest.
"""

import argparse

from headway.client import Client
from headway.v1 import inference_pb2 as v1


def request(seed: int) -> v1.GenerateRequest:
    return v1.GenerateRequest(
        parts=v1.PartsPrompt(parts=[v1.Part(text="Once upon a time")]),
        sampling=v1.SamplingParams(temperature=0.8, seed=seed),
        stop=v1.StopParams(max_tokens=40, ignore_eos=True),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="127.0.0.1:50051")
    arguments = parser.parse_args()

    with Client(arguments.address) as client:
        tokens: list[int] = []
        with client.generate(request(seed=7)) as stream:
            for delta in stream:
                tokens += delta.token_ids
                if len(tokens) >= 10:
                    break  # here the reader is lost
        kept_text, kept = stream.text, stream.started
        print(f"lost after {len(tokens)} tokens: {kept_text!r}")

        rest = request(seed=7)
        rest.resume.CopyFrom(v1.Resume(token_ids=tokens, seed=kept.seed, fingerprint=kept.fingerprint))
        resumed = client.generate(rest)
        resumed_tokens = [token for delta in resumed for token in delta.token_ids]
        print(f"resumed with {len(resumed_tokens)} tokens: {resumed.text!r}")

        whole = client.complete(request(seed=7))
        same = whole.token_ids == (*tokens, *resumed_tokens) and whole.text == kept_text + resumed.text
        print(f"the same as without a loss: {same}")


if __name__ == "__main__":
    main()
