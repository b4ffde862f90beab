"""The whole mirror in one process, in simulated time, from one seed: see tests/README.md."""
