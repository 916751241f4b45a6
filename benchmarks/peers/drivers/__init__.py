"""What runs inside a peer's own environment: it imports the peer, the standard library and `benchmarks.peers.line`."""
