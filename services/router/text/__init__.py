"""Text to tokens and back: all that the router does to words, and nothing that it does to requests."""
