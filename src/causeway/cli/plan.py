"""`causeway plan FILE`: a dry run of `causeway run`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import console, grid, into, load, print_json, styled, waiting, with_chosen
from causeway.cli.guard import complain
from causeway.cli.options import ClustersOption, FileArgument, JsonOption, valued
from causeway.cli.plan_words import changes_in_words, kept_in_words, starts_in_words
from causeway.cli.words import count
from causeway.errors import CausewayError, ConfigError, PartitionsFailedError

if TYPE_CHECKING:
    from causeway.cli.output import Output
    from causeway.config import TransformSettings
    from causeway.operate.plan import (
        LinkPlan,
        OwnTopic,
        Plan,
        Start,
        TransformPlan,
    )

_CHANGES = 20  # partitions in the output


def command(
    file: FileArgument,
    clusters: ClustersOption = None,
    as_json: JsonOption = False,
    running: Annotated[
        bool,
        typer.Option(
            "--running",
            help="Show what would change if the running mirror took the file over: topics that "
            "begin or end, groups, and each setting, with the reason if it needs a restart.",
        ),
    ] = False,
    url: Annotated[
        str | None,
        valued(
            "--url",
            "URL",
            "Address of the running mirror, for --running. Default: causeway.http.host and "
            "causeway.http.port of the file.",
        ),
    ] = None,
) -> int:
    """Show what `run` would mirror, create and change, and why topics are left out.

    Writes nothing. If there are problems, the exit code is not 0.
    """
    from causeway.operate.plan import as_json as to_json
    from causeway.operate.plan import plan

    if url is not None and not running:
        raise ConfigError("use", "--url", "it is only for --running", remedy="add --running")
    settings = into(with_chosen(load(file)), clusters)
    if running:
        from causeway.cli.plan_running import show_running

        return _judge_plan(show_running(settings, url, as_json=as_json))
    with waiting() as on_step:
        whole = plan(settings, on_step)
    if as_json:
        print_json(to_json(whole))
    else:
        out = console()
        for number, each in enumerate(whole.links):
            if number:
                out.print()
            _show(out, each)
        _show_internal_topics(out, whole.own)
    return _judge_plan(whole)


def _judge_plan(whole: Plan) -> int:
    problems = [problem.error for each in whole.links for problem in each.problems]
    return _judge(problems + [topic.problem for topic in whole.own if topic.problem is not None])


def _judge(errors: list[CausewayError]) -> int:
    """Returns the exit code of all problems if they have the same, else that of failed
    partitions."""
    if not errors:
        return 0
    complain(str(errors[0]) if len(errors) == 1 else f"{len(errors)} problems: {errors[0]}, …")
    codes = {error.exit_code for error in errors}
    return codes.pop() if len(codes) == 1 else PartitionsFailedError.exit_code


def _show(out: Output, each: LinkPlan) -> None:
    from rich.text import Text

    from causeway.control import AlterTopicConfigs, CreateTopic, topic_configs

    if each.error is not None:
        out.print(
            Text.assemble((each.link.name, "bold"), ": ", ("unknown", "red"), f" {each.error}")
        )
        return
    is_internal = each.link.policy.is_internal_topic
    left_out = [left for left in each.left_out if not is_internal(left.topic)]
    internal = len(each.left_out) - len(left_out)
    partitions = sum(topic.partitions for topic in each.mirrored)
    out.print(
        styled(each.link.name, "bold"),
        f": {count(len(each.mirrored), 'topic')} with "
        f"{count(partitions, 'partition')} would be mirrored, "
        f"{count(len(left_out), 'topic')} left out, "
        f"{count(len(each.problems), 'problem')}",
        sep="",
    )
    changes = changes_in_words(each)
    starts: defaultdict[str, list[Start]] = defaultdict(list)
    for start in each.starts:
        starts[start.topic].append(start)
    kept = {one.topic: one for one in each.offsets.topics}
    treated_by = {topic: one.settings for one in each.transforms for topic in one.topics}
    if each.mirrored:
        records = ["records"] if each.transforms else []
        table = grid("topic", "mirrored as", *records, ">partitions", "from", "on the target")
        for topic in each.mirrored:
            table.add_row(
                topic.source,
                topic.target,
                *([_treated(treated_by.get(topic.source))] if each.transforms else []),
                str(topic.partitions),
                starts_in_words(starts[topic.source]) + kept_in_words(kept.get(topic.source)),
                "; ".join(changes[topic.target]) or "nothing to change",
            )
        out.print(table)
    for topic in each.mirrored:
        for note in topic.notes:
            out.print(f"{topic.target}: {note}")
    for step in each.link.treatments:
        out.print(f"each record is {step.text}")
    for transform in each.transforms:
        _show_transform(out, transform)
    for at, change in each.changed[:_CHANGES]:
        out.print(f"{at}: {change}")
    if len(each.changed) > _CHANGES:
        more = count(len(each.changed) - _CHANGES, "partition")
        out.print(f"and {more} more whose transform or treatment changed (--json lists them)")
    # The reasons for configs of a mirror that its source may not have.
    created = [one for one in each.changes if isinstance(one, CreateTopic | AlterTopicConfigs)]
    shown = {name for change in created for name, _ in change.configs}
    for name in topic_configs.LIMIT_NAMES:
        if name in shown:
            out.print(f"{name}: {topic_configs.REASONS[name]}")
    if not (each.mirrored or each.left_out or each.problems):
        out.print(f"{each.link.source.alias} shows no topics: it has none, or an ACL hides them")
    if each.internal_in_kafka_3:
        out.print(
            f"mirrored as in MirrorMaker 2 since Kafka 4.0 (3.x treats them as internal):"
            f" {', '.join(each.internal_in_kafka_3)}"
            "; causeway.internal.topics = kafka-3 leaves them out"
        )
    if left_out:
        table = grid("left out", "reason")
        for left in left_out:
            table.add_row(left.topic, left.reason)
        out.print(table)
    if internal:
        out.print(
            f"{count(internal, 'internal topic')} of Kafka, Connect and mirrors left out "
            "(--json lists them)"
        )
    for subject in each.subjects:
        for change in subject.changes:
            out.print(f"schema subject {subject.pair.target}: {change}")
    for acl in each.acls.creates:
        out.print(f"ACL to create: {acl}")
    for note in (*each.acls.notes, *each.notes):
        out.print(note)
    for problem in each.problems:
        out.print(styled("problem", "red"), f"{problem.topic}: {problem.error}")


def _treated(transform: TransformSettings | None) -> str:
    return "unchanged" if transform is None else f"by {transform.name} ({transform.kind})"


def _show_transform(out: Output, planned: TransformPlan) -> None:
    """Prints a transform with its query."""
    settings = planned.settings
    if not planned.topics:
        out.print(styled("note", "yellow"), f"transform {settings.name} matches no mirrored topic")
    makes = f"replaces {', '.join(planned.replaces)}" if planned.replaces else "only drops"
    way = "plain records need no Spark" if planned.without_spark else "all records need Spark"
    refused = settings.dead_letters or "its partition stops"
    out.print(
        styled(f"transform {settings.name}", "bold"),
        f" ({settings.kind}): {makes}; {way}; a record that cannot be transformed: {refused}",
        sep="",
    )
    for line in (planned.sql or settings.python or "").strip().splitlines():
        out.print(f"  {line}")


def _show_internal_topics(out: Output, own: Sequence[OwnTopic]) -> None:
    missing = [topic for topic in own if topic.there is False]
    if missing:
        out.print()
        table = grid("internal topics to create", "on", "for")
        for topic in missing:
            table.add_row(topic.topic, topic.cluster, topic.purpose)
        out.print(table)
    for topic in own:
        if topic.error is not None:
            out.print(
                styled("unknown", "yellow"), f"{topic.topic} on {topic.cluster}: {topic.error}"
            )
        if topic.change is not None:
            out.print(f"{topic.topic} on {topic.cluster}: {topic.change}")
        if topic.problem is not None:
            out.print(styled("problem", "red"), str(topic.problem))
