"""Peers: what people run today, measured beside Headway with the same ruler; see docs/peers.md."""
