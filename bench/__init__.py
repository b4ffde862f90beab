"""Causeway beside MirrorMaker 2: the same source data, the same brokers, one run.

    python -m bench [--only json,latency] [--quick] [--soak MINUTES]

`throughput`, `start`, `latency`, `groups`, `many` and `soak` hold one measurement each, `asked` has
two of them beside HTTP requests, and `transforms` what records and keys they get where records are
transformed. What they share is a `Stage` (two clusters), a `System` (what is measured), a `Backlog`
(data that becomes readable all at once), a `Target` (an independent reader) and a `Meter` (CPU and
memory).
"""
