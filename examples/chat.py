"""A conversation of several turns; each is sent with all that was said before."""

import argparse

from headway.client import Client

TURNS = ("My name is Ada.", "What is my name?")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="127.0.0.1:50051")
    arguments = parser.parse_args()

    with Client(arguments.address) as client:
        chat = client.chat(system="You answer briefly.")
        for turn in TURNS:
            print(f"> {turn}")
            for delta in chat.send(turn, max_tokens=32, temperature=0.0):
                print(delta.text, end="", flush=True)
            print()
        print(f"{len(chat.messages)} messages so far")


if __name__ == "__main__":
    main()
