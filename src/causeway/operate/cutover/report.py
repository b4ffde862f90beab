"""A cutover in words, with the result of `causeway verify`, which is kept for the next call."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from causeway.config import LinkSettings
from causeway.model import TopicPartition, age_ms
from causeway.operate.cutover.values import Checklist, Producer, StepState, Verified
from causeway.operate.verify import Agreement, Progress, Report, Why

_MOST_LINES: Final = 8
_MOST_NAMES: Final = 5
_OLD_S: Final = 24 * 3600.0  # results that are older are not used: the records are compared again


def shortened(lines: Iterable[str]) -> tuple[str, ...]:
    found = list(lines)
    if len(found) <= _MOST_LINES:
        return tuple(found)
    return (*found[:_MOST_LINES], f"and {len(found) - _MOST_LINES:,} more")


def named(found: Collection[str]) -> str:
    """Returns the first names, and how many more there are."""
    more = len(found) - _MOST_NAMES
    shown = ", ".join(list(found)[:_MOST_NAMES])
    return shown + (f" and {more:,} more" if more > 0 else "")


def count(number: int, one: str) -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"


def duration(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min" if not rest else f"{minutes} min {rest} s"


def producer_lines(producers: Iterable[Producer], now_ms: int) -> tuple[str, ...]:
    """Returns a line for each producer."""
    return shortened(_line(each, now_ms) for each in producers)


def _line(each: Producer, now_ms: int) -> str:
    where = ", ".join(each.topics)
    many = f", {count(each.records, 'record')}" if each.records else ""
    if each.producer_id is None:
        return f"{where}: a producer without an id (not idempotent), so no broker can name it{many}"
    who = f"producer id {each.producer_id}"
    if each.transactional_id is not None:
        who += f", transactional id {each.transactional_id}"
    ago = age_ms(each.last_ms, now_ms)
    dated = "with an impossible time" if ago is None else f"dated {duration(ago / 1000)} ago"
    return f"{where}: {who}{many}, newest record {dated}"


def verified(report: Report, ends: Mapping[TopicPartition, int]) -> Verified:
    """Returns the result of a comparison. `ends`: how far the mirror was when it began."""
    bad = [one for one in report.partitions if one.verdict is Agreement.DIFFERS]
    # Records that are mirrored meanwhile are compared at the end.
    left = [
        (one, each)
        for one in report.partitions
        for each in one.left
        if each.why is not Why.NOT_MIRRORED
    ]
    text = ""
    if bad:
        many = sum(one.different for one in bad)
        text = f"{many:,} records differ, the first in {bad[0].topic}-{bad[0].partition}"
    unsure = ""
    if left:
        one, each = left[0]
        many = len({(one.topic, one.partition) for one, _ in left})
        where = f"{one.topic}-{one.partition}: {each.text}"
        unsure = f"not all could be compared in {many:,} partitions, such as {where}"
    return Verified(ends=ends, records=report.records, bad=text, unsure=unsure)


def under_way(checklist: Checklist, progress: Progress) -> Checklist:
    """Returns `checklist` with the progress of the comparison."""
    share = progress.done / progress.size if progress.size else 1.0
    text = f"{min(share, 1.0):.0%} compared, {progress.records:,} records are the same"
    steps = (
        step._replace(text=text, left_s=progress.eta_s) if step.state is StepState.NOW else step
        for step in checklist.steps
    )
    return replace(checklist, steps=tuple(steps))


@contextmanager
def memory(link: LinkSettings, topics: Collection[str]) -> Iterator[Path]:
    """Yields the file for `causeway verify`'s state, in the user's cache. If it cannot be written
    there, the file is for this call alone."""
    path = _in_cache(link, topics)
    if path is not None:
        yield path
        return
    with TemporaryDirectory(prefix="causeway-cutover-") as directory:
        yield Path(directory) / "compared"


def _in_cache(link: LinkSettings, topics: Collection[str]) -> Path | None:
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        directory = (Path(base) if base else Path.home() / ".cache") / "causeway" / "cutover"
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = repr((link.name, link.source.bootstrap, link.target.bootstrap, sorted(topics)))
        path = directory / hashlib.sha256(about.encode()).hexdigest()[:32]
        for each in directory.iterdir():
            with suppress(FileNotFoundError):  # another call may have been quicker
                if time.time() - each.stat().st_mtime > _OLD_S:
                    each.unlink()
        path.touch(mode=0o600)
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        return None
    return path
