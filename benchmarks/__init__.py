"""Benchmarks: what Headway costs, measured and written down; see `python -m benchmarks --list`."""
