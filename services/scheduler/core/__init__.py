"""The scheduler core: events in, plans and messages out. No I/O, no clock, no logging; the same events give the same plans."""
