"""`causeway plan FILE`: a dry run."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from causeway.cli.common import FileArgument, JsonOption, console, load, print_json
from causeway.cli.guard import complain
from causeway.cli.words import count
from causeway.errors import CausewayError, PartitionsFailedError

if TYPE_CHECKING:
    from causeway.cli.output import Output
    from causeway.operate.plan import LinkPlan


def command(file: FileArgument, as_json: JsonOption = False) -> int:
    """Show what `run` would mirror, create and change, and why topics are left out.

    Writes nothing anywhere. The exit code is other than 0 if there are problems.
    """
    from causeway.operate import plan

    plans = plan.plan(load(file))
    if as_json:
        print_json(plan.as_json(plans))
    else:
        out = console()
        for number, each in enumerate(plans):
            if number:
                out.print()
            _show(out, each)
    return _judge([problem.error for each in plans for problem in each.problems])


def _judge(errors: list[CausewayError]) -> int:
    """The exit code that all problems share, or that of partitions which fail."""
    if not errors:
        return 0
    complain(str(errors[0]) if len(errors) == 1 else f"{len(errors)} problems: {errors[0]}, …")
    codes = {error.exit_code for error in errors}
    return codes.pop() if len(codes) == 1 else PartitionsFailedError.exit_code


def _show(out: Output, each: LinkPlan) -> None:
    from rich.table import Table
    from rich.text import Text

    topics = each.topics
    partitions = sum(topic.partitions for topic in topics.mirrored)
    out.print(
        Text(each.link.name, "bold"),
        f": {count(len(topics.mirrored), 'topic')} with "
        f"{count(partitions, 'partition')} would be mirrored, "
        f"{count(len(topics.left_out), 'topic')} left out, "
        f"{count(len(each.problems), 'problem')}",
        sep="",
    )
    changes = _changes(each)
    if topics.mirrored:
        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("topic", overflow="fold")
        table.add_column("mirrored as", overflow="fold")
        table.add_column("partitions", justify="right")
        table.add_column("on the target", overflow="fold")
        for topic in topics.mirrored:
            table.add_row(
                topic.source,
                topic.target,
                str(topic.partitions),
                "; ".join(changes[topic.target]) or "nothing to change",
            )
        out.print(table)
    if not (topics.mirrored or topics.left_out or each.problems):
        out.print(f"{each.link.source.alias} shows no topics: it has none, or hides them from us")
    if each.new_progress_topic:
        out.print(f"progress topic to create: {each.new_progress_topic}")
    if topics.left_out:
        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("left out", overflow="fold")
        table.add_column("why", overflow="fold")
        for left in topics.left_out:
            table.add_row(left.topic, left.reason)
        out.print(table)
    for acl in each.acls.creates:
        out.print(f"ACL to create: {acl}")
    for note in each.acls.notes:
        out.print(note)
    for problem in each.problems:
        out.print(Text("problem", "red"), f"{problem.topic}: {problem.error}")


def _changes(each: LinkPlan) -> defaultdict[str, list[str]]:
    """What is done to each target topic, in words."""
    from causeway.control.configs import SyncConfigs
    from causeway.control.topics import AlterTopicConfigs, CreateTopic, GrowTopic

    words: defaultdict[str, list[str]] = defaultdict(list)
    for change in (*each.topics.changes, *each.configs.changes):
        match change:
            case CreateTopic():
                copies = (
                    "the default number of copies"
                    if change.replication_factor == -1
                    else count(change.replication_factor, "copy", "copies")
                )
                text = f"create: {count(change.partitions, 'partition')}, {copies}"
            case GrowTopic():
                text = f"grow from {change.before} to {change.partitions} partitions"
            case AlterTopicConfigs() | SyncConfigs():
                text = "set"
        configs = () if isinstance(change, GrowTopic) else change.configs
        if configs:
            separator = ", " if isinstance(change, CreateTopic) else " "
            text += separator + " ".join(f"{name}={_value(value)}" for name, value in configs)
        words[change.topic].append(text)
    return words


def _value(value: str | None) -> str:
    """As it is shown; None takes a config back to its default."""
    from causeway.control.limits import LONG_MAX

    if value is None:
        return "(default)"
    return "unlimited" if value == str(LONG_MAX) else value
