"""What is on the source, what is on the target, and how far one lags behind the other, live."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from rich.console import Console
from rich.live import Live
from rich.table import Table

from causeway.errors import CausewayError
from examples.demo.publish import Count, DemoTopic, Publisher

_REFRESH_S = 0.5
_FIRST_S = 0.1
_LINE_S = 3.0  # between two lines where there is no terminal
_TIMEOUT_S = 60.0
_PATIENCE_S = 300.0  # without any progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`age_s`: how long ago the oldest record that is not mirrored yet was published."""

    topic: DemoTopic
    published: int
    mirrored: int
    records_per_s: float
    bytes_per_s: float
    age_s: float

    @property
    def lag(self) -> int:
        return max(0, self.published - self.mirrored)


class Watch:
    """Asks the target itself, with a client that has nothing to do with Causeway."""

    def __init__(self, bootstrap: str, alias: str, topics: Sequence[DemoTopic]) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        self._topics = topics
        self._alias = alias
        self._before: Mapping[str, int] = {}
        self._at = time.monotonic()

    def rows(self, counts: Mapping[str, Count]) -> list[Row]:
        mirrored, now = self._mirrored(), time.monotonic()
        passed = max(now - self._at, 1e-3)
        rows = []
        for topic in self._topics:
            count, there = counts[topic.name], mirrored[topic.name]
            rate = (there - self._before.get(topic.name, 0)) / passed
            mean = count.size / count.records if count.records else 0
            age = count.age_of(there, now) if there < count.records else 0.0
            rows.append(
                Row(
                    topic=topic,
                    published=count.records,
                    mirrored=there,
                    records_per_s=rate,
                    bytes_per_s=rate * mean,
                    age_s=age,
                )
            )
        self._before, self._at = mirrored, now
        return rows

    def _mirrored(self) -> dict[str, int]:
        """Records a topic: the mirror's logs begin at 0 and have no gaps."""
        there = self._admin.list_topics(timeout=_TIMEOUT_S).topics
        asked = {
            TopicPartition(name, partition): OffsetSpec.latest()
            for topic in self._topics
            if (name := f"{self._alias}.{topic.name}") in there
            for partition in there[name].partitions
        }
        found = dict.fromkeys((topic.name for topic in self._topics), 0)
        if asked:
            for place, answer in self._admin.list_offsets(asked).items():
                try:
                    end = answer.result(_TIMEOUT_S).offset
                except (KafkaException, TimeoutError):  # made this moment: it has no leader yet
                    continue
                found[place.topic.removeprefix(f"{self._alias}.")] += end
        return found


def await_first(watch: Watch, publisher: Publisher, alive: Callable[[], None]) -> None:
    """Until the target has a first record. `alive` raises if the mirror has died."""
    deadline = time.monotonic() + _PATIENCE_S
    while not any(row.mirrored for row in watch.rows(publisher.counts)):
        alive()
        if time.monotonic() > deadline:
            raise CausewayError("mirror", "", f"nothing has come in {_PATIENCE_S:g} s")
        time.sleep(_FIRST_S)


def follow(
    console: Console, watch: Watch, publisher: Publisher, alive: Callable[[], None]
) -> list[Row]:
    """Show progress until all is published and mirrored. `alive` raises if the mirror has died."""
    begun = moved = time.monotonic()
    said = mirrored = 0.0
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            busy = publisher.busy
            rows = watch.rows(publisher.counts)
            now = time.monotonic()
            if console.is_terminal:
                live.update(table(rows, now - begun, publishing=busy), refresh=True)
            elif now - said >= _LINE_S:
                console.print(_line(rows, now - begun))
                said = now
            if not busy and all(row.lag == 0 for row in rows):
                return rows
            alive()
            if (total := sum(row.mirrored for row in rows)) != mirrored:
                mirrored, moved = total, now
            if now - moved > _PATIENCE_S:
                raise CausewayError("mirror", "", f"nothing has moved for {_PATIENCE_S:g} s")
            time.sleep(_REFRESH_S)


def table(rows: Sequence[Row], seconds: float, *, publishing: bool) -> Table:
    doing = "publishing and mirroring" if publishing else "mirroring the rest"
    shown = Table(title=f"{doing}, {seconds:.0f} s", title_justify="left", box=None)
    shown.add_column("topic")
    shown.add_column("codec", style="dim")
    for name in ("published", "mirrored", "records/s", "bytes/s", "lag", "lag in time"):
        shown.add_column(name, justify="right")
    for row in rows:
        shown.add_row(
            row.topic.name,
            row.topic.codec,
            f"{row.published:,}",
            f"{row.mirrored:,}",
            f"{row.records_per_s:,.0f}",
            f"{row.bytes_per_s / 1e6:,.1f} MB/s",
            f"{row.lag:,}",
            f"{row.age_s:.1f} s",
        )
    return shown


def _line(rows: Sequence[Row], seconds: float) -> str:
    published, mirrored = sum(row.published for row in rows), sum(row.mirrored for row in rows)
    speed = sum(row.bytes_per_s for row in rows) / 1e6
    lag, age = sum(row.lag for row in rows), max(row.age_s for row in rows)
    return (
        f"  {seconds:3.0f} s  published {published:>9,}  mirrored {mirrored:>9,}  "
        f"{speed:5.1f} MB/s  lag {lag:>7,} records, {age:.1f} s"
    )
