"""The report's rows, from made-up figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import codec_report, limit_report, report, results, table, transform_report
from bench.capacity import Capacity
from bench.latency import Latency, Spread
from bench.many import Many
from bench.parts import SOURCE
from bench.soak import Soak, growth
from bench.start import Start
from bench.throughput import Throughput
from bench.usage import Usage
from bench.verify import Verified


def _usage(seconds: float, cpu_s: float = 1.0, pss_mb: float = 500.0) -> Usage:
    return Usage(
        seconds=seconds,
        cpu_s=cpu_s,
        brokers_cpu_s=2.0,
        pss_mb=pss_mb,
        rss_mb=2 * pss_mb,
        parts={SOURCE: cpu_s / 4},
    )


def _throughput(seconds: float, cpu_s: float) -> Throughput:
    return Throughput(records=1_000_000, size=10**9, usage=_usage(seconds, cpu_s))


def _entry(title: str, **rounds: Sequence[Any]) -> results.Entry:
    return results.Entry(
        title=title,
        date="2026-01-01 00:00 UTC",
        commit="abc",
        machine={"processor": "one"},
        settings={"backlog": "1 record"},
        rounds={name: [results.plain(figure) for figure in each] for name, each in rounds.items()},
    )


def _rows(**entries: results.Entry) -> Mapping[str, report.Row]:
    return {row.work: row for row in report.rows(entries)}


@pytest.mark.parametrize(("seconds", "holds"), [(3.0, True), (3.4, False)])
def test_verify_is_measured_against_what_was_promised(seconds: float, holds: bool) -> None:
    figure = Verified(records=1, compared=10**9, seconds=9.0, usage=_usage(seconds, pss_mb=5_000))
    found = _rows(verify=_entry("verify", causeway=[figure]))
    assert (found["verify: MB/s"].wanted, found["verify: MB/s"].holds) == ("at least 300", holds)
    assert found["memory, the most in any of these"].ours == "–"


@pytest.mark.parametrize(("seconds", "holds"), [(1.0, True), (1.25, True), (1.3, False)])
def test_throughput_is_the_median_of_the_rounds(seconds: float, holds: bool) -> None:
    ours = [_throughput(each, 0.5) for each in (seconds, 0.1, 99.0)]
    rows = _rows(json=_entry("JSON", mm2=[_throughput(12.5, 50)], causeway=ours))
    row = rows["JSON: records/s"]
    assert (row.theirs, row.holds) == ("80,000", holds)
    assert rows["JSON: CPU s per GB"].holds is True
    assert rows["JSON: CPU s per GB"].ratio == "0.01 ×"


def test_what_was_measured_for_one_system_alone_is_no_verdict() -> None:
    row = _rows(json=_entry("JSON", causeway=[_throughput(1, 1)]))["JSON: records/s"]
    assert (row.theirs, row.ratio, row.holds) == ("–", "–", None)


def test_latency_counts_p50_and_p99_of_both_readers() -> None:
    def latency(p50: float, p99: float) -> Latency:
        spread = Spread(p50=p50, p99=p99, max=100)
        return Latency(
            records=10,
            source=spread,
            read_uncommitted=spread,
            read_committed=spread,
            usage=_usage(60),
        )

    rows = _rows(latency=_entry("latency", mm2=[latency(4, 10)], causeway=[latency(2.1, 10)]))
    assert rows["latency: read_committed p50"].holds is False
    assert rows["latency: read_uncommitted p99"].holds is True


def test_memory_is_the_most_of_all_and_flat_only_after_an_hour() -> None:
    start = Start(partitions=1, records=1, usage=_usage(3, pss_mb=1501))
    samples = (500.0, 500.0, 510.0)
    short, long = (
        Soak(minutes=minutes, records=1, cpu_share=0.1, pss_mb=samples) for minutes in (5, 60)
    )
    rows = _rows(first=_entry("first", causeway=[start]), soak=_entry("soak", causeway=[short]))
    assert rows["memory, the most in any of these"].holds is False
    assert rows["memory over 5 min"].holds is None
    assert _rows(soak=_entry("soak", causeway=[long]))["memory over 60 min"].holds is True
    assert growth([100.0, 100.0, 90.0]) == pytest.approx(-0.1)


def test_every_kind_of_figure_is_rendered_and_survives_the_file(tmp_path: Path) -> None:
    start = Start(partitions=1, records=1, usage=_usage(3))
    entries = {
        "json": _entry("JSON", mm2=[_throughput(10, 9)], causeway=[_throughput(1, 1)]),
        "first": _entry("first record", mm2=[start], causeway=[start]),
        "soak": _entry("soak", causeway=[Soak(minutes=1, records=1, cpu_share=1, pss_mb=(1.0,))]),
    }
    results.save(tmp_path / "results.json", entries)
    text = report.render(results.load(tmp_path / "results.json"))
    assert text == report.render(entries)
    assert "| JSON: records/s | 100,000 | 1,000,000 | 10 × | at least 10 × | yes |" in text


@pytest.mark.parametrize(
    ("name", "seconds", "verdicts"),
    [
        ("far-source", 0.9, [True, None]),
        ("far-source", 1.1, [False, None]),
        ("far-line", 0.9, [None, True]),
        ("far-line", 0.99, [None, False]),
    ],
)
def test_a_far_cluster_is_held_against_mirror_maker_and_a_share_of_the_line(
    name: str, seconds: float, verdicts: list[bool | None]
) -> None:
    rounds = {
        "mm2": [_throughput(10.0, 1)],
        "causeway": [_throughput(seconds, 1)],
        "plain-copy": [_throughput(0.75, 1)],
    }
    rows = list(limit_report.rows({name: _entry("far", **rounds)}))
    assert [row.holds for row in rows] == verdicts


def _transform_rows(**entries: results.Entry) -> list[table.Row]:
    named = {f"transform-{name}": entry for name, entry in entries.items()}
    return list(transform_report.rows(named))


@pytest.mark.parametrize(
    ("seconds", "copies", "chains"), [(7.6, True, True), (7.8, False, True), (10.1, False, False)]
)
def test_a_transform_is_held_against_the_plain_copy_and_kafkas_own(
    seconds: float, copies: bool, chains: bool
) -> None:
    plain, ours, chain = (_throughput(each, 4.0) for each in (10.0, seconds, 15.0))
    entries = {
        "copy": _entry("copied", mm2=[plain], causeway=[plain]),
        "filter": _entry("kept", causeway=[ours], **{"mm2-smt": [chain]}),
    }
    copy, tuned, smt = _transform_rows(**entries)
    assert (copy.holds, tuned.holds, smt.holds) == (copies, None, chains)
    assert copy.theirs == "100,000"


def test_an_untransformed_topic_is_held_against_itself_without_a_transform() -> None:
    rounds = {"causeway": [_throughput(1.0, 1.0)], "causeway-quiet": [_throughput(1.2, 1.0)]}
    (row,) = _transform_rows(quiet=_entry("copied", **rounds))
    assert (row.ratio, row.holds) == ("0.833 ×", False)


@pytest.mark.parametrize(("cpu_s", "holds"), [(1.7, True), (1.9, False)])
def test_idle_partitions_have_limits_of_their_own(cpu_s: float, holds: bool) -> None:
    idle = Capacity(
        topics=1_000,
        partitions=10_000,
        start_s=60.0,
        usage=_usage(60, cpu_s),
        scrape_cpu_s=0.2,
        scrape_mb=4.0,
        status_s=5.0,
        status_cpu_s=4.0,
    )
    entries = {"idle-10000": _entry("idle", causeway=[idle])}
    core, scrape, start, status = limit_report.rows(entries)
    assert (core.wanted, core.holds, scrape.holds) == ("at most 3 %", holds, True)
    assert (start.holds, status.holds) == (True, False)
    assert "| Causeway | 60.0 s |" in report.render(entries)


def test_many_transforms_have_a_limit_of_their_own() -> None:
    many = Many(transforms=50, topics=500, records=5000, usage=_usage(60, pss_mb=2001))
    entries = {"transform-many": _entry("many", causeway=[many])}
    (row,) = transform_report.rows(entries)
    assert (row.ours, row.holds) == ("2,001 MB", False)
    assert "memory, the most in any of these | – | – |" in report.render(entries)


def test_the_parts_of_a_transform_are_shown_for_a_million_records() -> None:
    ours = Throughput(records=500_000, size=10**9, usage=_usage(5, cpu_s=8))
    text = report.render({"transform-aes": _entry("AES", causeway=[ours])})
    assert "| AES: Causeway | 16.0 | 0.0 | 4.0 |" in text


def test_cpu_of_a_batch_is_compared_with_an_older_commit_and_a_bare_relay() -> None:
    def figure(cpu_s: float) -> Throughput:
        return Throughput(records=1, size=10**9, wire=500_000_000, usage=_usage(1.0, cpu_s))

    entry = _entry(
        "JSON", **{"causeway": [figure(1)], "causeway-before": [figure(2.1)], "bare": [figure(0.5)]}
    )
    before, bare = limit_report.rows({"cpu-json-4": entry})
    assert (before.theirs, before.ours, before.holds) == ("4.20", "2.00", True)
    assert (bare.ratio, bare.holds) == ("2 ×", None)
    slower = _entry("JSON", **{"causeway": [figure(1)], "causeway-before": [figure(1.9)]})
    assert [row.holds for row in limit_report.rows({"cpu-json-4": slower})] == [False]


def test_speed_over_tls_is_measured_against_what_was_promised() -> None:
    entry = _entry("1 kB", causeway=[_throughput(1, 1)], mm2=[_throughput(2.9, 1)])
    (row,) = limit_report.rows({"1kb-tls": entry})
    assert (row.wanted, row.holds) == ("at least 3 ×", False)


def test_the_checked_in_report_equals_what_results_json_gives() -> None:
    folder = Path(results.__file__).parent
    report_text = report.render(results.load(folder / "results.json"))
    assert (folder / "RESULTS.md").read_text() == report_text, "write it again: make bench-report"


def test_what_is_compressed_on_the_way_is_held_against_mirror_maker_2_with_the_same_key() -> None:
    def figure(seconds: float, stored: int) -> Throughput:
        figure = _throughput(seconds, 2.0)
        return replace(figure, wire=10**9, stored=stored)

    entry = _entry(
        "1 kB to zstd",
        causeway=[figure(2.0, 200_000_000)],
        mm2=[figure(4.4, 250_000_000)],
    )
    found = {row.work: row for row in codec_report.rows({"codec-zstd": entry}) if row.theirs != "–"}
    speed, stored = found["1 kB to zstd: records/s"], found["1 kB to zstd: stored at the target"]
    assert (speed.ratio, speed.wanted, speed.holds) == ("2.2 ×", "at least 2 ×", True)
    assert (stored.theirs, stored.ours, stored.holds) == ("25.0%", "20.0%", None)
    text = report.render({"codec-zstd": entry})
    assert "## Compressed on the way" in text
    assert "| stored GB |" in text
