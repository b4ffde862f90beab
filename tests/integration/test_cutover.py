"""A cutover on real clusters, with producers and consumers that go on meanwhile. The source has an
authorizer, and Causeway the rights there that docs/how-to/cutover.md lists."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from causeway.cluster import Cluster, SecurityDisabled
from causeway.config import (
    LinkSettings,
    Settings,
)
from causeway.control import fences
from causeway.errors import ConfigError, ConflictError
from causeway.formats import load
from causeway.link_topics import DirectiveLog, Scope, plan_end, write_directives
from causeway.model import State
from causeway.naming import ReplicationPolicy
from causeway.operate.cutover import (
    Act,
    Checklist,
    CheckMark,
    CutoverEnd,
    FirstMover,
    Look,
    OnLook,
    Wishes,
    undo,
)
from causeway.operate.cutover import run as cutting
from causeway.operate.failover.ending import wish
from causeway.operate.listing import groups
from tests.harness.command import causeway
from tests.harness.daemon import RunningDaemon, link_apart
from tests.harness.guarded import Guarded, grant, mirror_name, mirror_of
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka.security import Security
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.lanes import client
from tests.harness.links import settings_of
from tests.harness.members import Member
from tests.harness.running import mm2_file
from tests.harness.shops import trading
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

LATE = [b"late 1", b"late 2"]  # in a transaction that is open when the fence comes
FENCING = Wishes(first=FirstMover.PRODUCERS, fence=True, settle_s=1.0)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    users = dict.fromkeys(("causeway", "shop"), "secret")
    security = Security(protocol="SASL_PLAINTEXT", mechanisms=("PLAIN",), users=users, acl=True)
    with LocalCluster("A", security=security) as cluster:
        tools = KafkaTools(cluster.internal_bootstrap)
        grant(tools)
        shop = KafkaTools(cluster.bootstrap, security.librdkafka("shop"))
        yield Guarded(cluster, tools, shop)


def is_fenced(mirror: LinkSettings, topic: str) -> bool:
    with Cluster(mirror.source_admin) as source:
        acls = source.describe_acls()
        assert not isinstance(acls, SecurityDisabled)
        return fences.denies_writes(acls, topic)


def recorded(mirror: LinkSettings) -> set[str]:
    with Cluster(mirror.target_admin) as target:
        log = DirectiveLog(target, mirror.directives_topic)
        log.look()
        return set(fences.fences(log.directives))


class DiesError(Exception):
    """The command ends here, as one that is killed."""


def dies_fenced(_: Checklist, look: Look) -> None:
    if any(fence.there for fence in look.fences.values()):
        raise DiesError


def dies_before(name: str) -> OnLook:
    def on_look(checklist: Checklist, _: Look) -> None:
        if (step := checklist.current) is not None and step.name == name:
            raise DiesError

    return on_look


@pytest.mark.timeout(300)
def test_the_command_shows_all_steps_fences_producers_and_undoes_it(
    guarded: Guarded,
    target_cluster: LocalCluster,
    target: KafkaTools,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    topic, alias = prefix + "orders", prefix.partition("-")[0]
    guarded.tools.create_topic(topic, 2)
    file = mm2_file(
        tmp_path,
        {alias: guarded.cluster, "B": target_cluster},
        *(
            f"{alias}.{k} = {v}"
            for k, v in guarded.cluster.security.java_client("causeway").items()
        ),
        f"{alias}->B.enabled = true",
        f"topics = {prefix}.*",
        "groups = none",
    )
    settings = load(file)
    (mirror,) = settings.links
    wanted = "--first", "producers", "--fence", "--topic", topic
    with RunningDaemon(monkeypatch, mirror) as run, trading(guarded.shop, topic) as shop:
        run.await_state(topic, State.RUNNING, 2)
        await_until(lambda: len(shop.written) > 100, 60)
        shown = causeway("cutover", file, *wanted)
        assert shown.code == 2, shown.err
        assert "1 producer in the last hour" in shown.out
        assert "% of each disk free on B" in " ".join(shown.out.split())
        assert "deny WRITE on 1 topic, lifted after 5 min" in shown.out
        assert "nothing was changed; repeat the command with --yes to change it" in shown.err
        assert not is_fenced(mirror, topic)
        assert not recorded(mirror)

        with pytest.raises(DiesError):
            cutting.cutover(
                settings, FENCING, topics=[topic], act=True, on_look=dies_before("promote")
            )
        await_until(lambda: shop.refused > 3, 60)
        assert is_fenced(mirror, topic)
        assert sum(target.offsets(mirror_name(mirror, topic)).values()) == len(shop.written)
        again = causeway("cutover", file, *wanted, "--dry-run", "--yes", "--json")
        states = {step["step"]: step["state"] for step in again.json["steps"]}
        assert states["check"] == states["lag"] == "done"
        assert states["fence"] != "next"
        assert not any(each["mark"] == "note" for each in again.json["checks"]), "it is our fence"

        before = len(shop.written)
        assert "would be lifted" in causeway("cutover", file, "--undo").out
        assert is_fenced(mirror, topic)
        undone = causeway("cutover", file, "--undo", "--yes", "--json")
        assert undone.json["fences"] == [{"topic": topic, "ended": False, "error": None}]
        await_until(lambda: not is_fenced(mirror, topic), what="the broker knows of it")
        assert not recorded(mirror)
        await_until(lambda: len(shop.written) > before + 10, 60, "the shop goes on")

        ended = causeway("cutover", file, *wanted, "--yes")
        assert ended.code == 0, ended.err
        assert f"topic {topic} is {mirror_name(mirror, topic)}" in ended.out
        assert f"bootstrap.servers = {target_cluster.bootstrap}" in ended.out
    wrong = causeway("cutover", file, "--topic", prefix + "order")
    assert wrong.code == 2
    assert f"like it: {topic}" in wrong.err


def decided(
    settings: Settings, source: KafkaTools, target: KafkaTools, topic: str, group: str
) -> None:
    """A group that has read 19 records on A, and is at 60 on B, stops the cutover before anything
    is changed."""
    (mirror,) = settings.links
    there = mirror_name(mirror, topic)
    source.commit_group(group, {(topic, 0): 30})
    await_until(lambda: target.offsets(there).get(0, 0) >= 60, 60)
    target.commit_group(group, {(there, 0): 60})
    found = cutting.cutover(settings, FENCING, act=True)
    assert found.end is CutoverEnd.BLOCKED
    assert not found.look.fences
    current = found.checklist.current
    assert current is not None
    assert current.lines[0].startswith(f"{group} would skip 41 records: --reset-group {group} ")
    (listed,) = groups(settings, codes=["ahead"]).lines
    assert listed.name == group


@pytest.mark.parametrize(
    "first", [FirstMover.CONSUMERS, pytest.param(FirstMover.PRODUCERS, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(300)
def test_producers_and_consumers_move_and_nothing_is_lost_or_doubled(
    guarded: Guarded,
    target: KafkaTools,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    first: FirstMover,
) -> None:
    """A shop writes all the time, where it may; a group reads what it writes. Both move when the
    list says so: the group is closed on A when it is asked for, the shop goes to B once its topic
    is promoted. A transaction that was open when the fence came is committed behind it. At B lies
    what was acknowledged on either side, once and in order; the group has read each record once.
    The printed pause is what the shop has felt."""
    topic, group = prefix + "orders", prefix + "billing"
    guarded.tools.create_topic(topic, 2)
    with guarded.tools.transactional(prefix + "early") as early:  # offsets differ from now on
        early.begin()
        early.send(topic, *(Outgoing(value=b"aborted", partition=n % 2) for n in range(20)))
        early.abort()
    mirror = mirror_of(guarded, target, prefix)
    settings = settings_of(mirror)
    there = mirror_name(mirror, topic)
    reader = Member(guarded.tools, group, topic)
    wishes = replace(FENCING, first=first, reset_groups=frozenset({prefix + "audit"}))
    with (
        RunningDaemon(monkeypatch, mirror) as run,
        trading(guarded.shop, topic) as shop,
        guarded.tools.transactional(prefix + "slow") as slow,
    ):
        run.await_state(topic, State.RUNNING, 2)
        reader.read_more(100)
        reader.commit()
        if first is FirstMover.CONSUMERS:
            decided(settings, guarded.tools, target, topic, prefix + "audit")
        moved = closed = ended = False
        slow.begin()

        def on_look(checklist: Checklist, look: Look) -> None:
            nonlocal moved, closed, ended
            step = checklist.current
            if step is not None and step.name == "fence" and not look.fences:
                slow.send(topic, *(Outgoing(value=each, partition=0) for each in LATE))
                slow.flush()
            if step is not None and "open transactions" in step.text and not ended:
                slow.commit()
                ended = True
            if look.ended and not moved:
                shop.move(target, there)
                moved = True
            if checklist.act is Act.PERSON and not closed:
                assert step is not None
                assert step.name == "consumers"
                assert group in step.lines[0]
                if first is FirstMover.PRODUCERS:
                    old = sum(map(len, guarded.tools.read(topic, read_committed=True).values()))
                    reader.read_until(lambda: len(reader.read) == old)
                else:
                    reader.read_more(50)
                reader.commit()
                reader.close()
                closed = True

        found = cutting.cutover(settings, wishes, act=True, on_look=on_look)
        assert found.end is CutoverEnd.DONE, found.checklist
        assert shop.refused
        assert ended
        before = len(shop.written)
        await_until(lambda: len(shop.written) > before + 50, 60, "the shop goes on at B")
        assert found.pause_ms is not None
        pause_s = found.pause_ms / 1000
        assert 0.5 * pause_s < shop.pause_s < pause_s + 30, "what is said is what the shop saw"
        assert is_fenced(mirror, topic), "what is written at A now would stay there"
    assert run.result == 0
    if first is FirstMover.CONSUMERS:
        assert target.group_offsets(prefix + "audit")[there, 0] == 19
    successor = Member(target, group, there)
    written = [*shop.written, *LATE]
    successor.read_until(lambda: len(reader.read) + len(successor.read) >= len(written))
    successor.close()
    assert Counter(reader.read + successor.read) == Counter(written)
    for number, records in target.read(there).items():
        values = [record.value for record in records]
        assert [value for value in values if value not in LATE] == shop.written[number::2]
        assert [value for value in values if value in LATE] == (LATE if number == 0 else [])
    again = cutting.cutover(settings, wishes, act=True)
    assert again.end is CutoverEnd.DONE
    assert undo(settings, act=True).ended == {topic}
    await_until(lambda: not is_fenced(mirror, topic), what="the broker knows of it")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_who_goes_on_behind_the_fence_is_named_and_the_fence_lifts_itself(
    guarded: Guarded, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A super user is not kept from writing: it is named, nothing is promoted, and the shop goes on
    when the fence's time is over. Meanwhile a second one is on_look whose lock it is."""
    topic, name = prefix + "orders", prefix + "boss"
    guarded.tools.create_topic(topic, 2)
    mirror = mirror_of(guarded, target, prefix)
    settings = settings_of(mirror)
    wishes = replace(FENCING, fence_for_s=12.0)
    with RunningDaemon(monkeypatch, mirror) as run, trading(guarded.shop, topic) as shop:
        run.await_state(topic, State.RUNNING, 2)
        named: set[str] = set()
        told_second = False

        with guarded.tools.transactional(name) as boss:

            def on_look(checklist: Checklist, look: Look) -> None:
                nonlocal told_second
                step = checklist.current
                if step is None or step.name != "fence" or not look.fences:
                    return
                boss.begin()
                boss.send(topic, b"mine")
                boss.commit()
                named.update(str(each.transactional_id) for each in look.producers)
                if name in named and not told_second:
                    told_second = True
                    with pytest.raises(ConflictError, match="being cut over by anna@ops"):
                        cutting.cutover(settings, wishes, act=True, who="ben@ops")

            found = cutting.cutover(settings, wishes, act=True, who="anna@ops", on_look=on_look)
        assert found.end is CutoverEnd.LIFTED, found.checklist
        assert name in named
        assert name in {each.transactional_id for each in found.through}
        assert told_second
        assert not is_fenced(mirror, topic)
        before = len(shop.written)
        await_until(lambda: len(shop.written) > before + 10, 60, "the shop goes on")


def promote_and_die(mirror: LinkSettings, topic: str) -> None:
    about = wish(State.PROMOTING, Scope(topic), "anna@ops", None)
    with Cluster(mirror.target_admin) as cluster:
        write_directives(cluster, mirror, partial(plan_end, wish=about))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_fence_of_a_command_that_died_is_lifted_by_the_driver_or_the_next_call(
    guarded: Guarded, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = prefix + "orders"
    guarded.tools.create_topic(topic, 1)
    guarded.tools.produce(topic, [b"1", b"2"])
    mirror = mirror_of(guarded, target, prefix)
    settings = settings_of(mirror)
    wishes = replace(FENCING, fence_for_s=3.0)

    def fence_and_die() -> None:
        with pytest.raises(DiesError):
            cutting.cutover(settings, wishes, act=True, on_look=dies_fenced)

    with RunningDaemon(monkeypatch, mirror) as run:
        run.await_state(topic, State.RUNNING)
        fence_and_die()
        await_until(lambda: not is_fenced(mirror, topic), 60, "the driver lifts it")
        await_until(lambda: not recorded(mirror), 60)
        promote_and_die(mirror, topic)
        run.await_state(topic, State.PROMOTING)
        assert undo(settings, act=True).held == (topic,)
        run.await_state(topic, State.RUNNING)
        fence_and_die()
    await_until(lambda: fence_is_over(mirror), 60)
    assert is_fenced(mirror, topic), "nobody has looked"
    shown = cutting.cutover(settings, wishes)
    assert shown.checklist.act is Act.LIFT
    cutting.cutover(settings, replace(wishes, fence=False), act=True, wait_s=0)
    assert not is_fenced(mirror, topic)
    assert not recorded(mirror)


def test_where_a_fence_cannot_be_it_is_said_before_anything_is_changed(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source has no authorizer. Nor is a topic cut over that nobody mirrors."""
    topic = prefix + "orders"
    source.create_topic(topic, 1)
    source.produce(topic, [b"1", b"2"])
    mirror = link_apart(source.bootstrap, target.bootstrap, prefix)
    settings = settings_of(mirror)
    with RunningDaemon(monkeypatch, mirror) as run:
        run.await_state(topic, State.RUNNING)
        found = cutting.cutover(settings, FENCING, act=True)
        assert found.end is CutoverEnd.BLOCKED
        (why,) = [each.text for each in found.look.checks if each.mark is CheckMark.BAD]
        assert "no authorizer" in why
        assert "without --fence" in why
        with pytest.raises(ConfigError, match=f"like it: {topic}"):
            cutting.cutover(settings, FENCING, topics=[prefix + "order"])
        without = cutting.cutover(settings, replace(FENCING, fence=False, verify=True), act=True)
        assert without.end is CutoverEnd.DONE, without.checklist
        assert without.look.verified is not None
        assert without.look.verified.records == 2


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_way_back_begins_exactly_at_the_cut(
    guarded: Guarded, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shop moves; what it writes at B comes back to A, right behind what was there."""
    topic, alias = prefix + "orders", prefix.partition("-")[0]
    guarded.tools.create_topic(topic, 2)
    there = mirror_of(guarded, target, prefix)
    policy = ReplicationPolicy(kind="identity", source_alias=alias)
    there = replace(there, policy=policy, sole_writer=False)
    # The way back writes to A: by the listener where it may.
    a = client(alias, guarded.tools.bootstrap)
    back = replace(
        there,
        source=there.target,
        source_admin=there.target_admin,
        target=a,
        target_admin=a,
        policy=ReplicationPolicy(kind="identity", source_alias="B"),
    )
    settings = settings_of(there, back)
    wishes = replace(FENCING, back=True)
    lacking = cutting.cutover(settings_of(there), wishes)
    assert "reverse link" in {
        each.name for each in lacking.look.checks if each.mark is CheckMark.BAD
    }
    with trading(guarded.shop, topic) as shop:
        with RunningDaemon(monkeypatch, there) as run:
            run.await_state(topic, State.RUNNING, 2)
            await_until(lambda: len(shop.written) > 50, 60)

            def on_look(_: Checklist, look: Look) -> None:
                if look.ended:
                    shop.move(target, topic)

            found = cutting.cutover(settings, wishes, link=there.name, act=True, on_look=on_look)
            assert found.end is CutoverEnd.DONE, found.checklist
            assert not is_fenced(there, topic), "the way back writes there"
        with RunningDaemon(monkeypatch, there, back):
            before = len(shop.written)
            await_until(lambda: len(shop.written) > before + 50, 60)
            shop.close()
            await_until(lambda: guarded.tools.offsets(topic) == target.offsets(topic), 60)
            again = cutting.cutover(settings, wishes, link=there.name, act=True)
            assert again.end is CutoverEnd.DONE, again.checklist
    for kafka in (guarded.tools, target):
        for number, records in kafka.read(topic).items():
            assert [record.value for record in records] == shop.written[number::2]


def fence_is_over(mirror: LinkSettings) -> bool:
    with Cluster(mirror.target_admin) as cluster:
        log = DirectiveLog(cluster, mirror.directives_topic)
        log.look()
        return bool(fences.expired(log.directives, int(time.time() * 1000)))
