"""The parts of `headway.client`: import them from there."""
