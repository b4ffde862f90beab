"""Formats numbers, sizes, times and names for people."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from causeway.link_topics import RuleCounts, Transformed
    from causeway.status import DriverStatus

_UNITS = ("B", "kB", "MB", "GB", "TB")
# JSON does not escape these characters. A terminal obeys the first ones. The others are
# invisible or change the direction of the text that follows.
_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)


def printable(text: str) -> str:
    r"""`text` in one line, with control characters as escapes: `a\nb`."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def printable_lines(text: str) -> str:
    """Returns `text` with printable lines. The line ends stay."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    r"""Returns the same JSON, with escapes (`\u009b`) for characters that a terminal obeys."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def count(number: int, one: str) -> str:
    """Returns `1 topic` or `2,000 topics`."""
    return f"{number:,} {one if number == 1 else one + 's'}"


def size(number: float) -> str:
    """Returns a number of bytes as `980 B` or `1.2 MB`."""
    unit = 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number /= 1000
        unit += 1
    return f"{number:,.0f} {_UNITS[unit]}" if unit == 0 else f"{number:,.1f} {_UNITS[unit]}"


def duration(milliseconds: float | None) -> str:
    """Returns a time span in its two leading units, or `?` if it is unknown."""
    if milliseconds is None:
        return "?"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def moment(milliseconds: int) -> str:
    """Returns milliseconds since 1970 as `2026-01-31T12:00:00Z`."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def number(value: int | None) -> str:
    """Returns the number with a separator for thousands, or `?` if it is unknown."""
    return "?" if value is None else f"{value:,}"


def with_and_without(rule: RuleCounts) -> str:
    """Returns `1 mask value.$.card: 1,000 records with it, 3 without`."""
    return f"{rule.rule}: {count(rule.found, 'record')} with it, {rule.missing:,} without"


def outcomes(counts: Transformed) -> str:
    """Returns the counts of a transform: `1,000 in, 990 out, 10 dropped, 0 refused; 12 through
    Spark`."""
    text = (
        f"{counts.records_in:,} in, {counts.records_out:,} out, {counts.dropped:,} dropped,"
        f" {counts.refused:,} refused"
    )
    counted = counts.without_spark or counts.through_spark  # an earlier version has no such counts
    return f"{text}; {counts.through_spark:,} through Spark" if counted else text


def driver_of(driver: DriverStatus | None, never: str) -> str:
    """Returns who leads, and when the driver was last seen, or the text `never` if no driver has
    run."""
    if driver is None:
        return never
    seen = duration(max(0, time.time() * 1000 - driver.last_seen_ms))
    if driver.running:
        return f"driver {driver.owner} running, seen {seen} ago"
    return f"no running driver, the last one ({driver.owner}) was seen {seen} ago"
