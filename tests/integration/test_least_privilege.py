"""The table in docs/how-to/security.md lists the rights that Causeway needs. With all of
them everything works. Without any one of them something fails and names the missing right."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from causeway.errors import CausewayError
from tests.harness.command import causeway
from tests.harness.control import Truth, checkpoints
from tests.harness.kafka.cluster import LocalCluster, start_all
from tests.harness.kafka.security import Security
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import (
    PATIENCE_S,
    Running,
    assert_same,
    await_copied,
    mm2_file,
    status_of,
)
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "security.md"
TOPICS, GROUP = ("orders", "grown"), "billing"
TASKS = {
    "offset syncs",
    "groups",
    "topic configs",
    "ACLs",
    "heartbeats",
    "MirrorMaker 2 offsets",
    "open transactions",
    "source",
    "lag in time",
}
# Of librdkafka, and as Causeway's errors have them.
KINDS = {
    "Topic": (ResourceType.TOPIC, "topic {}"),
    "Group": (ResourceType.GROUP, "group {}"),
    "TransactionalId": (ResourceType.TRANSACTIONAL_ID, "transactional id {}"),
    "Cluster": (ResourceType.BROKER, "the cluster"),
}
ON_TOPICS = AclBindingFilter(
    ResourceType.TOPIC,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)
# What Kafka counts into an operation. It stays allowed where the operation is taken away, so that
# no line of the table could be a weaker one either.
INCLUDED = {
    "Read": "Describe",
    "Write": "Describe",
    "Alter": "Describe",
    "AlterConfigs": "DescribeConfigs",
}
OFF = (
    "topics = " + ", ".join(TOPICS),
    f"groups = {GROUP}",
    "refresh.topics.interval.seconds = 1",
    "sync.topic.configs.interval.seconds = 1",
    "sync.topic.acls.interval.seconds = 1",
    "emit.checkpoints.interval.seconds = 1",
    "sync.group.offsets.interval.seconds = 1",
    "sync.topic.acls.enabled = false",
    "emit.checkpoints.enabled = false",
    "emit.offset-syncs.enabled = false",
    "emit.heartbeats.enabled = false",
    "causeway.mirror.maker.offsets = false",
)
ON = {
    "records": (),
    "directives": (),
    "checkpoints": ("emit.checkpoints.enabled = true",),
    "group offsets": ("sync.group.offsets.enabled = true",),
    "offset syncs": ("emit.offset-syncs.enabled = true",),
    "offset syncs on the target": (
        "emit.offset-syncs.enabled = true",
        "offset-syncs.topic.location = target",
    ),
    "heartbeats": ("emit.heartbeats.enabled = true",),
    "heartbeats back": (),  # the other way round, see Flow.lines
    "ACLs": ("sync.topic.acls.enabled = true",),
    "read-only mirrors": ("causeway.read.only.mirrors = true",),
    "MirrorMaker 2 offsets": ("causeway.mirror.maker.offsets = true",),
}


class Rule(NamedTuple):
    """One operation of a line of the table."""

    side: str
    feature: str
    kind: str
    name: str
    operation: str


def table() -> list[Rule]:
    found = []
    for row in PAGE.read_text().splitlines():
        cells = [cell.strip().strip("`") for cell in row.strip("|").split("|")]
        if len(cells) == 5 and cells[0] in ("source", "target"):
            side, features, kind, name, operations = cells
            found += [
                Rule(side, feature, kind, name, operation)
                for feature in features.split(", ")
                for operation in operations.split(", ")
            ]
    return found


RULES = table()


def names(rule: Rule, source: str, target: str, topics: Iterable[str]) -> list[str]:
    """What the name of a rule stands for."""
    if rule.name == "<topic>":
        return list(topics)
    if rule.name == "<mirror>":
        return [f"{source}.{topic}" for topic in topics]
    found = rule.name.replace("<source>", source).replace("<target>", target)
    return [found.replace("<group>", GROUP)]


@dataclass(frozen=True, slots=True)
class Flow:
    """From `source` to `target`, aliases that are also the names of our users there. `features` are
    turned on beside the records; `rules` are all that the users may do."""

    source: str
    target: str
    features: tuple[str, ...]
    rules: tuple[Rule, ...]

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def lines(self) -> list[str]:
        """Of the property file."""
        wanted = ["enabled = true", f"causeway.principal = User:{self.target}"]
        wanted += [line for feature in self.features for line in ON[feature]]
        found = [f"{self.name}.{line}" for line in wanted]
        if "heartbeats back" in self.features:
            found.append(f"{self.target}->{self.source}.emit.heartbeats.enabled = true")
        return found

    @property
    def topics(self) -> tuple[str, ...]:
        """Heartbeats that come to the source are mirrored on."""
        return (*TOPICS, "heartbeats") if "heartbeats back" in self.features else TOPICS

    def granted(self, side: str) -> set[tuple[str, str, str]]:
        return {
            (rule.kind, name, rule.operation)
            for rule in self.rules
            if rule.side == side
            for name in names(rule, self.source, self.target, self.topics)
        }


@dataclass(frozen=True, slots=True)
class Lacking(Flow):
    lacks: Rule

    @property
    def remedies(self) -> list[str]:
        """Any of these somebody should be told to grant."""
        rule = self.lacks
        operation, kind = constant(rule.operation), KINDS[rule.kind][1]
        found = names(rule, self.source, self.target, self.topics)
        return [f"{operation} on {kind.format(name)}" for name in found]

    def is_told(self, reasons: Iterable[str]) -> bool:
        return any(remedy in reason for remedy in self.remedies for reason in reasons)


def flow(source: str, target: str, *features: str) -> Flow:
    rules = tuple(rule for rule in RULES if rule.feature in ("records", *features))
    return Flow(source, target, features, rules)


def lacking(number: int, rule: Rule) -> Lacking:
    """A flow with the rule's feature alone, that has all rules but this one."""
    whole = flow(f"S{number}", f"T{number}", rule.feature)
    rules = tuple(each for each in whole.rules if each != rule)
    if rule.operation in INCLUDED:
        rules += (rule._replace(operation=INCLUDED[rule.operation]),)
    return Lacking(whole.source, whole.target, whole.features, rules, rule)


FULL = (
    flow("A", "B", *(feature for feature in ON if feature != "offset syncs on the target")),
    flow("C", "D", *(feature for feature in ON if feature != "offset syncs")),
)
LESS = tuple(lacking(number, rule) for number, rule in enumerate(RULES))


class Sides(NamedTuple):
    """The two clusters, and their administrators."""

    source: LocalCluster
    target: LocalCluster
    at_source: KafkaTools
    at_target: KafkaTools

    def grant(self, flows: Iterable[Flow]) -> None:
        for side, tools in (("source", self.at_source), ("target", self.at_target)):
            rules = [
                acl(each.source if side == "source" else each.target, *granted)
                for each in flows
                for granted in each.granted(side)
            ]
            create_acls(tools, *rules)

    def file(self, directory: Path, flows: Iterable[Flow], as_admin: Iterable[Flow] = ()) -> Path:
        """A property file of all of them, `as_admin` with users who may do everything."""
        clusters: dict[str, LocalCluster | str] = {}
        lines = list(OFF)
        for each in flows:
            clusters |= {each.source: self.source, each.target: self.target}
            lines += each.lines
            for alias in (each.source, each.target):
                keys = self.source.security.java_client(alias)
                lines += [f"{alias}.{key} = {value}" for key, value in keys.items()]
        for each in as_admin:
            clusters[each.source] = self.source.internal_bootstrap
            clusters[each.target] = self.target.internal_bootstrap
            lines += each.lines
        return mm2_file(directory, clusters, *lines)


def acl(user: str, kind: str, name: str, operation: str) -> AclBinding:
    return AclBinding(
        KINDS[kind][0],
        name,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation[constant(operation)],
        AclPermissionType.ALLOW,
    )


def constant(operation: str) -> str:
    """AlterConfigs as ALTER_CONFIGS."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()


def create_acls(tools: KafkaTools, *rules: AclBinding) -> None:
    for done in tools.admin.create_acls(list(rules)).values():
        done.result(PATIENCE_S)


@pytest.fixture
def sides() -> Iterator[Sides]:
    users = {alias: "secret" for each in (*FULL, *LESS) for alias in (each.source, each.target)}
    security = Security(protocol="SASL_PLAINTEXT", mechanisms=("PLAIN",), users=users, acl=True)
    clusters = LocalCluster("A", security=security), LocalCluster("B", security=security)
    try:
        start_all(clusters)
        yield Sides(*clusters, *(KafkaTools(each.internal_bootstrap) for each in clusters))
    finally:
        for cluster in clusters:
            cluster.destroy()


def test_the_commands_on_the_page_grant_what_its_table_says() -> None:
    options = ArgumentParser()
    for name in ("topic", "group", "transactional-id", "allow-principal"):
        options.add_argument(f"--{name}")
    for name in ("add", "cluster"):
        options.add_argument(f"--{name}", action="store_true")
    options.add_argument("--operation", action="append")
    granted = set()
    page = PAGE.read_text()
    for side, start, end in (("source", "# on A", "# on B"), ("target", "# on B", "```")):
        commands = page.split(f"{start}\n")[1].split(f"{end}\n")[0]
        for command in filter(None, commands.splitlines()):
            said = options.parse_args(shlex.split(command)[1:])
            kind, name = next(
                (kind, name)
                for kind, name in (
                    ("Topic", said.topic),
                    ("Group", said.group),
                    ("TransactionalId", said.transactional_id),
                    ("Cluster", "kafka-cluster"),
                )
                if name is not None
            )
            granted |= {(side, kind, name, operation) for operation in said.operation}
    assert granted == {
        (rule.side, rule.kind, name, rule.operation)
        for rule in RULES
        for name in names(rule, "A", "B", ["orders"])
    }


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_with_exactly_those_everything_works(sides: Sides, tmp_path: Path) -> None:
    """Through a start from nothing and one that goes on, with all that is mirrored besides records
    turned on, offset syncs on the source in one flow, on the target in the other."""
    at_source, at_target = sides.at_source, sides.at_target
    sides.grant(FULL)
    at_source.create_topics(TOPICS, 2, config={"retention.ms": "86400000"})
    create_acls(at_source, acl("ann", "Topic", "orders", "Read"))
    for each in FULL:
        # A mirror that has to be grown and configured, and MirrorMaker 2's traces.
        at_target.create_topic(f"{each.source}.grown", 1)
        at_target.create_topic(f"mm2-offsets.{each.source}.internal", 2)
        at_target.produce(f"mm2-offsets.{each.source}.internal", [b"of another connector"])
    file = sides.file(tmp_path, FULL)
    for committed in (100, 200):
        produce(at_source)
        at_source.commit_group(GROUP, {("orders", 0): committed})
        with Running("run", file, directory=tmp_path) as run:
            for each in FULL:
                for topic in TOPICS:
                    await_copied(at_source, topic, at_target, f"{each.source}.{topic}")
                    assert_same(at_source, topic, at_target, f"{each.source}.{topic}")
                await_all_else(sides, each, committed)
            await_until(lambda: all_well(file), PATIENCE_S, "all is well", poll_s=1)
            assert run.stop() == 0
        assert "not allowed" not in run.log


def produce(tools: KafkaTools) -> None:
    for topic in TOPICS:
        tools.produce(topic, [Outgoing(value=b"%d" % n, partition=n % 2) for n in range(500)])


def await_all_else(sides: Sides, each: Flow, committed: int) -> None:
    at_source, at_target, alias = sides.at_source, sides.at_target, each.source
    topic, configured = f"{alias}.orders", f"{alias}.grown"
    place = topic, 0
    exact = Truth.of(at_source, "orders", at_target, topic).place(0, committed)
    copied = acl("ann", "Topic", topic, "Read")
    old_offsets = f"mm2-offsets.{alias}.internal"
    if "offset syncs" in each.features:
        holder, syncs = at_source, f"mm2-offset-syncs.{each.target}.internal"
    else:
        holder, syncs = at_target, f"mm2-offset-syncs.{alias}.internal"
    written = {
        "offset syncs": lambda: has_records(holder, syncs),
        "heartbeats": lambda: has_records(at_target, "heartbeats"),
        "heartbeats on their way": lambda: has_records(at_target, f"{alias}.heartbeats"),
        "a checkpoint": lambda: (
            (found := checkpoints(at_target, alias).get((GROUP, place))) is not None
            and found.downstream == exact
        ),
        "the group's offset": lambda: at_target.group_offsets(GROUP).get(place) == exact,
        "configs": lambda: at_target.topic_config(configured)["retention.ms"] == "86400000",
        "ACLs": lambda: copied in at_target.admin.describe_acls(ON_TOPICS).result(PATIENCE_S),
        "MirrorMaker 2's offsets": lambda: sum(at_target.offsets(old_offsets).values()) > 1,
    }
    for what, there in written.items():
        await_until(there, PATIENCE_S, f"{each.name}: {what}", poll_s=0.5)


def has_records(tools: KafkaTools, topic: str) -> bool:
    return tools.partition_count(topic) is not None and any(tools.offsets(topic).values())


def all_well(file: Path) -> bool:
    """Everything has been done, and nothing was refused."""
    for link in status_of(file).values():
        tasks = {task["task"]: task for task in link["tasks"]}
        if link["problems"] or "not allowed" in str(link):
            return False
        if tasks.keys() != TASKS:
            return False
        if any(task["reason"] or task["done_at_ms"] is None for task in tasks.values()):
            return False
        if any(one["reason"] or one["state"] != "running" for one in link["partitions"]):
            return False
    return True


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_without_any_one_of_them_something_fails_and_says_so(sides: Sides, tmp_path: Path) -> None:
    """A flow for each line of the table, which has the records' lines and those of its own feature,
    less this one. Flows that lack Create start from nothing; those that lack what only matters
    later have begun with users who may do everything."""
    at_source, at_target = sides.at_source, sides.at_target
    sides.grant(LESS)
    at_source.create_topics(TOPICS, 2)
    create_acls(at_source, acl("ann", "Topic", "orders", "Read"))
    create_acls(at_target, acl("ann", "Topic", "*", "Write"))
    for each in LESS:
        if "directives" in each.features:
            at_target.create_topic(f"__causeway.{each.source}.{each.target}.directives")
        if "MirrorMaker 2 offsets" in each.features:
            at_target.create_topic(f"mm2-offsets.{each.source}.internal")
            at_target.produce(f"mm2-offsets.{each.source}.internal", [b"of another connector"])
    produce(at_source)
    at_source.commit_group(GROUP, {("orders", 0): 100})
    creating = [each for each in LESS if each.lacks.operation == "Create"]
    later = [
        each
        for each in LESS
        if each.lacks.kind == "Topic" and each.lacks.operation in ("Read", "Alter", "AlterConfigs")
    ]
    with Running("run", sides.file(tmp_path, creating, later), directory=tmp_path) as run:
        await_reasons(sides, creating, run, tmp_path)
        for each in later:
            for topic in TOPICS:
                await_copied(at_source, topic, at_target, f"{each.source}.{topic}")
        written = [f"{e.source}.checkpoints.internal" for e in later if "checkpoints" in e.features]
        await_until(lambda: all(has_records(at_target, name) for name in written), PATIENCE_S)
        assert run.stop() == 0

    at_source.add_partitions("grown", 3)
    at_source.set_topic_config("grown", {"retention.ms": "86400000"})
    produce(at_source)
    for each in later:
        # Whose it is can only be told by reading it.
        at_target.produce(f"{each.source}.orders", [b"behind what was mirrored"])
    unheard = [each for each in LESS if is_found_before_it_starts(each)]
    rest = [each for each in LESS if each not in (*creating, *unheard)]
    with Running("run", sides.file(tmp_path, rest), directory=tmp_path) as run:
        await_reasons(sides, rest, run, tmp_path)
        assert run.stop() == 0
    for each in unheard:
        ended = causeway("run", sides.file(tmp_path, [each]))
        assert ended.code == 5
        assert each.is_told([ended.err])


def is_found_before_it_starts(each: Lacking) -> bool:
    """Then there is neither a status nor a line in the log, and a flow alone ends the process."""
    return each.lacks.feature == "MirrorMaker 2 offsets" and each.lacks.operation == "Read"


def await_reasons(sides: Sides, flows: Sequence[Lacking], run: Running, directory: Path) -> None:
    """Until each says which ACL it lacks."""
    files = {each: sides.file(directory, [each]) for each in flows}
    left = {each: set[str]() for each in flows}

    def all_said() -> bool:
        for each in list(left):
            left[each] = reasons(each, files[each], run)
            if each.is_told(left[each]):
                del left[each]
        return not left

    try:
        await_until(all_said, 2 * PATIENCE_S, "a reason for each", poll_s=2)
    except AssertionError as error:
        for each, said in left.items():
            error.add_note(f"{each.name} lacks {each.remedies}, and says {said}")
        raise


def reasons(each: Flow, file: Path, run: Running) -> set[str]:
    """In the status; and in the log, of what happens before there is a place for a status, and of
    heartbeats the other way round."""
    names = f"link={each.name} ", f"link={each.target}->{each.source} "
    found = {line for line in run.log.splitlines() if any(name in line for name in names)}
    try:
        link = status_of(file)[each.name]
    except CausewayError as error:
        return found | {str(error)}
    found |= {one["reason"] for one in (*link["partitions"], *link["problems"], *link["tasks"])}
    found |= {why for task in link["tasks"] for why in task["items"].values()}
    found.add(link["directives_reason"])
    return {reason for reason in found if reason is not None}
