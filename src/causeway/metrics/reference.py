"""Writes docs/reference/metrics.md: `python -m causeway.metrics.reference`."""

from __future__ import annotations

from collections.abc import Iterator

from causeway.metrics.catalogue import SECTIONS

_HEAD = """# Metrics

`causeway run` answers Prometheus at `/metrics` of [its server](http.md), and with
`causeway.metrics.port` set on that port as well: on this machine only unless
`causeway.metrics.host` names another address, without TLS or token. It refuses calls
by names that are not this machine's: list other names in `causeway.metrics.names`.
[deploy/](../../deploy/README.md) has a scrape configuration, alert rules and a Grafana dashboard.

- `link` is the flow, as `A->B`; `topic` and `partition` are the source's, but in MirrorMaker 2's
  metrics the topic is the target's.
- An unknown value has no sample. A lag is unknown until the source's end is known. A lag in time is
  unknown for some seconds, until the time of the first record is known. Times are unknown for a
  partition that has moved nothing yet. Times of records before 1973, or more than a day ahead, give
  no age (some producers write seconds or nanoseconds). Minimum, maximum and average are of about
  the last minute; if nothing moved in it, they have no sample.
- Counters begin at 0 with each run, and when a process leads a link again. A process on standby has
  no samples of partitions.
- The page is made at each scrape; a scrape does not delay lanes. It has about 23 samples for each
  partition, which cost the driver 0.2 ms of CPU: with 10,000 partitions scrape once a minute, with
  a `scrape_timeout` of 30 s.
- Checkpoint latencies have four samples for each group and partition, for at most 1,000 of them.
- Causeway's own process is described by the usual `process_*` metrics; lanes run in others.

This page is made of the table in the code: `python -m causeway.metrics.reference`.
"""


def markdown() -> str:
    """Returns the whole page."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield _HEAD
    for number, (title, metrics) in enumerate(SECTIONS.items()):
        yield f"## {title}\n" if number == 0 else f"\n## {title}\n"
        yield "| metric | kind | labels | meaning |"
        yield "|---|---|---|---|"
        for metric in metrics:
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"


if __name__ == "__main__":
    print(markdown(), end="")
