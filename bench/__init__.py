"""Measures Causeway and MirrorMaker 2: the same source data, the same brokers, one run.

    python -m bench [--only json,latency] [--quick] [--soak MINUTES]

`throughput`, `start`, `latency`, `groups`, `many` and `soak` have one measurement each. `asked`
repeats two of them during HTTP requests, and `transforms` has the records and keys of measurements
with transforms. All of them share a `Stage` (two clusters), a `System` (the system to measure), a
`Backlog` (data that becomes readable all at once), a `Target` (an independent reader) and a `Meter`
(CPU and memory).
"""
