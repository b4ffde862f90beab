"""`causeway translate` against the logs of real brokers: each offset of topics whose offsets differ
from their mirror's is translated there and back, by the truth that reading both logs tells."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from bisect import bisect_left
from pathlib import Path

import pytest

from causeway.formats import load
from causeway.translation import Answer, OffsetNote, Question, translate
from tests.harness.command import causeway
from tests.harness.control import Truth
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import Running, await_copied, mm2_file
from tests.harness.waiting import await_until
from tests.harness.writers import write_transactions

pytestmark = pytest.mark.integration


def compact(source: KafkaTools, topic: str) -> None:
    """Gaps inside batches and between them."""
    compacted = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "delete.retention.ms": "0",
    }
    source.create_topic(topic, 1, config=compacted)
    source.produce(topic, [Outgoing(key=b"%d" % (n * n % 90), value=b"%d" % n) for n in range(400)])
    feed = iter(range(10_000))

    def cleaned() -> bool:
        source.produce(topic, [Outgoing(key=b"feed", value=b"%d" % next(feed))])
        return len(source.read(topic)[0]) < 200

    await_until(cleaned, 60, "the source is compacted", poll_s=0.3)
    source.rest_cleaner(topic)


def questions(ends: dict[str, dict[int, int]]) -> list[Question]:
    return [
        Question(topic=topic, partition=partition, offset=offset)
        for topic, of in ends.items()
        for partition, end in of.items()
        for offset in range(end + 1)
    ]


def wrong_there(answers: tuple[Answer, ...], truth: dict[str, Truth]) -> list[Answer]:
    """Those that are called exact and are not."""
    return [
        one
        for one in answers
        if one.exact
        and one.places[0].offset
        != truth[one.question.topic].place(one.question.partition, one.question.offset or 0)
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_offset_there_and_back(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    port: int,
) -> None:
    torn, cleaned = prefix + "torn", prefix + "cleaned"
    topics = [torn, cleaned]
    source.create_topic(torn, 2)
    write_transactions(source, torn, 50, seed=1)
    compact(source, cleaned)
    lines = (
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        "sync.topic.acls.enabled = false",
        "emit.checkpoints.enabled = false",
        f"causeway.http.port = {port}",
    )
    file = mm2_file(tmp_path, {"A": source_cluster, "B": target_cluster}, *lines)
    with Running("run", file, directory=tmp_path) as run:
        for topic in topics:
            await_copied(source, topic, target, f"A.{topic}")
        write_transactions(source, torn, 25, seed=2)
        await_copied(source, torn, target, f"A.{torn}")
        over_http = ask_over_http(port, torn, 100)
        # Its last word is old by now, and its offset maps are not written.
        run.kill()

    truth = {topic: Truth.of(source, topic, target, f"A.{topic}") for topic in topics}
    settings = load(file)

    asked = questions({topic: source.offsets(topic) for topic in topics})
    there = translate(settings, asked)
    assert len(there) == len(asked)
    assert not wrong_there(there, truth)
    assert [one for one in there if not one.exact] == []
    places = truth[torn]
    gaps = {one.question for one in there if one.places[0].why is OffsetNote.GAP}
    assert len(gaps) > 100
    for gap in gaps:
        assert gap.offset not in truth[gap.topic].source[gap.partition], gap
    assert over_http == places.place(0, 100)

    back = questions({f"A.{topic}": target.offsets(f"A.{topic}") for topic in topics})
    home = translate(settings, back, back=True)
    assert [one for one in home if not one.exact] == []
    for one in home:
        at, offset = one.question.partition, one.question.offset
        known = truth[one.question.topic.removeprefix("A.")]
        unread = known.source[at][bisect_left(known.target[at], offset or 0) :]
        found = one.places[0].offset
        assert found is not None
        assert [each for each in known.source[at] if each >= found] == unread, one

    without_the_source(tmp_path, target_cluster, lines, asked, truth)
    as_commands(file, torn, places, tmp_path)


def ask_over_http(port: int, topic: str, offset: int) -> int:
    query = urllib.parse.urlencode({"topic": topic, "partition": 0, "offset": offset})
    url = f"http://127.0.0.1:{port}/api/v1/links/A-%3EB/translate?{query}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        found = json.load(answer)
    assert found["exact"] is True
    place: int = found["places"][0]["offset"]
    return place


def without_the_source(
    tmp_path: Path,
    target_cluster: LocalCluster,
    lines: tuple[str, ...],
    asked: list[Question],
    truth: dict[str, Truth],
) -> None:
    """What the progress topic tells is answered, the rest says what cannot be looked up."""
    clusters: dict[str, LocalCluster | str] = {"A": "127.0.0.1:1", "B": target_cluster}
    file = mm2_file(tmp_path, clusters, *lines, "A.consumer.request.timeout.ms = 2000")
    answers = translate(load(file), asked)
    assert not wrong_there(answers, truth)
    exact = [one for one in answers if one.exact]
    assert exact
    assert {one.places[0].why for one in answers if not one.exact} <= {
        OffsetNote.UNREACHABLE,
        OffsetNote.NOT_YET,
        OffsetNote.BEFORE,
    }
    for one in answers:
        place = one.places[0].offset
        known = truth[one.question.topic].place(one.question.partition, one.question.offset or 0)
        assert place is not None
        assert place <= known, "nothing is skipped"


def as_commands(file: Path, topic: str, truth: Truth, tmp_path: Path) -> None:
    one = ("--topic", topic, "--partition", "1")
    ended = causeway("translate", file, *one, "--offset", "57", "--json")
    assert ended.code == 0, ended.err
    place = ended.json["answers"][0]["places"][0]
    assert place["offset"] == truth.place(1, 57)
    ended = causeway("translate", file, *one, "--offset", "999999")
    assert ended.code == 7
    assert "beyond the end: the source ends at" in ended.out
    ended = causeway("translate", file, *one, "--timestamp", "2020-01-01")
    assert (ended.code, ended.err) == (0, "")
    given = tmp_path / "places.csv"
    given.write_text(f"topic,partition,offset\nA.{topic},0,0\nA.{topic},1,20\n")
    ended = causeway("translate", file, "--back", "--input", given, "--json")
    assert ended.code == 0, ended.err
    assert [each["places"][0]["topic"] for each in ended.json["answers"]] == [topic, topic]
    ended = causeway("translate", file, "--topic", topic[:-1], "--partition", "0", "--offset", "1")
    assert ended.code == 2
    assert f"like it: {topic}" in ended.err
