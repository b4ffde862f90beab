"""`causeway plan FILE --running`: the changes that the file would bring to the running mirror."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from causeway.cli.common import console, print_json, styled, waiting
from causeway.cli.output import table
from causeway.cli.plan_words import changes_in_words, starts_in_words
from causeway.cli.words import count, printable

if TYPE_CHECKING:
    from causeway.cli.output import Output
    from causeway.config import SettingChange, Settings
    from causeway.operate.plan import LinkPlan, Plan, Start
    from causeway.operate.running import FlowDifference, RunningDifference, TopicDifference

_WHERE = (
    "run this command on the driver's machine, which `causeway status` shows, or give the address"
    " that `causeway run` prints: --url URL"
)
_LONG = 60  # characters of a value; a query may have hundreds
_SAME = 15  # of these, before the first difference


def show_running(settings: Settings, url: str | None, *, as_json: bool) -> Plan:
    """Prints the differences. Returns the plan of the file, for its problems."""
    from causeway.operate.plan import plan
    from causeway.operate.running import RunningDriver, compare
    from causeway.operate.running import as_json as to_json

    driver = RunningDriver(settings, url, _WHERE)
    with waiting() as on_step:
        found = compare(settings, driver, partial(plan, settings, on_step), on_step)
    if as_json:
        print_json(to_json(found))
    else:
        show(console(), found)
    return found.plan


def show(out: Output, found: RunningDifference) -> None:
    out.print(f"compared with the running mirror at {found.url}")
    plans = {each.link.name: each for each in found.plan.links}
    for flow in found.flows:
        _show_flow(out, flow, plans.get(flow.name))
    if found.changes:
        columns = ("setting", "running", "file", "~applies")
        out.print(table(columns, [_row(each) for each in found.changes], out.width))
    if found.restarts:
        keys = ", ".join(each.place for each in found.restarts)
        out.print(
            styled("restart", "yellow"),
            f"needed for {keys}: until then the running mirror keeps all of its settings",
        )
    elif found.changes:
        out.print("the running mirror can take the file over without a restart")
    else:
        out.print("the running mirror has the settings of the file")


def _row(change: SettingChange) -> tuple[str, str, str, str]:
    values = (change.before, change.after)
    before, after = (None if each is None else printable(each) for each in values)
    pairs = zip(before or "", after or "", strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return change.place, _cut(before, same), _cut(after, same), _applies(change)


def _cut(text: str | None, same: int) -> str:
    """Returns the part of a long text that differs from the other one, behind `same` characters."""
    if text is None:
        return "–"
    if len(text) <= _LONG:
        return text
    first = max(0, same - _SAME) if same > _LONG - _SAME else 0
    return f"{'…' * (first > 0)}{text[first : first + _LONG]}{'…' * (first + _LONG < len(text))}"


def _applies(change: SettingChange) -> str:
    if change.applies.restart:
        return f"after a restart: {change.applies.restart}"
    if change.applies.as_start:
        return "at once, by the rules of a start: the flow compares it with its claims"
    return "at once"


def _show_flow(out: Output, flow: FlowDifference, plan: LinkPlan | None) -> None:
    out.print(styled(flow.name, "bold"), f": {', '.join(_summary(flow))}", sep="")
    if flow.topics:
        rows = list(_topic_rows(flow, plan))
        out.print(table(("topic", "change", "on the target", "~details"), rows, out.width))
    for verb, names in (("followed", flow.groups_begin), ("no longer followed", flow.groups_end)):
        if names:
            out.print(f"groups {verb}: {', '.join(map(printable, names))}")
    shown = {each.after for each in flow.topics}
    if plan is not None:
        for topic, words in changes_in_words(plan).items():
            if topic not in shown:
                out.print(f"{topic}: {'; '.join(words)}")
        for acl in plan.acls.creates:
            out.print(f"ACL to create: {acl}")
    for note in flow.notes:
        out.print(styled("note", "yellow"), printable(note))
    for problem in () if plan is None else plan.problems:
        out.print(styled("problem", "red"), f"{problem.topic}: {problem.error}")


def _summary(flow: FlowDifference) -> Iterator[str]:
    from causeway.operate.running import TopicStep

    if not flow.runs:
        yield "the flow begins"
    elif not flow.planned:
        yield "the flow ends; its topics stay on the target"
    many = {step: sum(each.step is step for each in flow.topics) for step in TopicStep}
    begins, ends = many.pop(TopicStep.BEGINS), many.pop(TopicStep.ENDS)
    if begins:
        yield f"{count(begins, 'topic')} {'begins' if begins == 1 else 'begin'}"
    if ends:
        yield f"{count(ends, 'topic')} {'ends' if ends == 1 else 'end'}"
    if changed := sum(many.values()):
        yield f"{count(changed, 'topic')} {'changes' if changed == 1 else 'change'}"
    if flow.runs and flow.planned and not (flow.topics or flow.notes):
        yield "no topic begins or ends"


def _topic_rows(flow: FlowDifference, plan: LinkPlan | None) -> Iterator[tuple[str, str, str, str]]:
    changes = changes_in_words(plan) if plan else defaultdict(list)
    starts: defaultdict[str, list[Start]] = defaultdict(list)
    for start in plan.starts if plan else ():
        starts[start.topic].append(start)
    for each in flow.topics:
        details = list(_details(each, starts[each.topic])) + changes.get(each.after or "", [])
        yield each.topic, str(each.step), each.after or each.before or "–", "; ".join(details)


def _details(each: TopicDifference, starts: list[Start]) -> Iterator[str]:
    from causeway.operate.running import TopicStep

    before, after = (name or "none" for name in each.transforms)
    match each.step:
        case TopicStep.BEGINS:
            yield f"from {starts_in_words(starts)}"
        case TopicStep.ENDS:
            yield "the mirrored topic stays as it is"
        case TopicStep.MOVES:
            yield f"now it is {each.before}"
        case TopicStep.TRANSFORMED:
            yield f"transform: {before} → {after}"
