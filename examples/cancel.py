"""Stops an answer half-way, meets a deadline, and reads an error."""

import argparse

from headway.client import Client, DeadlineExceeded, InvalidRequest

PROMPT = [{"role": "user", "content": "Count to one thousand."}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="127.0.0.1:50051")
    arguments = parser.parse_args()

    with Client(arguments.address) as client:
        # Leaving the block ends the answer; the server stops computing it.
        with client.generate(PROMPT, max_tokens=400, ignore_eos=True) as stream:
            received = 0
            for delta in stream:
                received += len(delta.token_ids)
                if received >= 5:
                    break
        print(f"stopped after {received} tokens")

        try:
            for _ in client.generate(PROMPT, max_tokens=400, ignore_eos=True, timeout_s=0.05):
                pass
        except DeadlineExceeded:
            print("the deadline has passed")

        try:
            client.complete(PROMPT, temperature=-1.0)
        except InvalidRequest as error:
            print(f"refused: {', '.join(violation.field for violation in error.violations)}")


if __name__ == "__main__":
    main()
