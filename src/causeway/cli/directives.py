"""`causeway pause | resume | restart | throttle | step-down FILE`: asked of a running mirror."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causeway.cli.common import console, load, print_json, waiting
from causeway.cli.options import (
    FileArgument,
    JsonOption,
    LinkOption,
    NoWaitOption,
    ReasonOption,
    TimeoutOption,
    TopicOption,
)
from causeway.cli.words import count, duration, moment, printable, size
from causeway.errors import ConfigError, NobodyLeadsError

if TYPE_CHECKING:
    from rich.text import Text

    from causeway.link_topics import Directive
    from causeway.operate.directives import DirectiveOutcome

PartitionOption = Annotated[
    int | None,
    typer.Option("--partition", metavar="N", help="One of its partitions.", show_default=False),
]
AheadOption = Annotated[
    bool, typer.Option("--ahead", help="The topic is yet to come: it holds when it does.")
]
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(|k|M|G|Ki|Mi|Gi)B?(?:/s)?")
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_UNLIMITED = "unlimited"
_LONG = 40  # characters of an option that are quoted


def pause(
    file: FileArgument,
    link: LinkOption = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    reason: ReasonOption = None,
    ahead: AheadOption = False,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Mirror nothing more of a link, topic or partition until it is resumed.

    It holds for every driver of the file, also for one that is started later.
    """
    from causeway.operate import directives

    settings = load(file, quiet=True)
    with waiting() as told:
        told("waiting until the driver has paused it")
        outcomes = directives.pause(
            settings,
            link=link,
            topic=topic,
            partition=partition,
            reason=reason,
            ahead=ahead,
            wait_s=None if no_wait else timeout,
        )
    return _say(outcomes, as_json)


def resume(
    file: FileArgument,
    link: LinkOption = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    reason: ReasonOption = None,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Go on with what was paused, where it was: nothing is lost or doubled."""
    from causeway.operate import directives

    settings = load(file, quiet=True)
    with waiting() as told:
        told("waiting until the driver has resumed it")
        outcomes = directives.resume(
            settings,
            link=link,
            topic=topic,
            partition=partition,
            reason=reason,
            wait_s=None if no_wait else timeout,
        )
    return _say(outcomes, as_json)


def restart(
    file: FileArgument,
    link: LinkOption = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt",
            help="Acknowledge lost records: go on without them, or with the data on the target.",
        ),
    ] = False,
    reason: ReasonOption = None,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Try partitions that are stopped or failed again now.

    The driver looks at each partition as if for the first time. A partition that could lose or
    double records stops again, unless --adopt acknowledges the loss.
    """
    from causeway.operate import directives

    settings = load(file, quiet=True)
    with waiting() as told:
        told("waiting until the driver has tried it again")
        outcomes = directives.restart(
            settings,
            link=link,
            topic=topic,
            partition=partition,
            adopt=adopt,
            reason=reason,
            wait_s=None if no_wait else timeout,
        )
    return _say(outcomes, as_json, " --adopt" if adopt else "")


def throttle(
    file: FileArgument,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate",
            metavar="RATE",
            help="Bytes a second that are read from the source: 500kB, 10MB, 1GiB, or unlimited.",
            show_default=False,
        ),
    ] = None,
    off: Annotated[
        bool, typer.Option("--off", help="Take it back: what the file says counts again.")
    ] = False,
    link: LinkOption = None,
    topic: TopicOption = None,
    reason: ReasonOption = None,
    ahead: AheadOption = False,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Limit how fast a link, or one of its topics, is mirrored."""
    from causeway.operate import directives

    if (rate is None) != off:
        cause = "say either how fast or that it is over"
        raise ConfigError("throttle", cause=cause, remedy="--rate 10MB, or --off")
    most = None if rate is None else parse_rate(rate)
    settings = load(file, quiet=True)
    with waiting() as told:
        told("waiting until the driver has set it")
        outcomes = directives.throttle(
            settings,
            bytes_per_s=most,
            off=off,
            link=link,
            topic=topic,
            reason=reason,
            ahead=ahead,
            wait_s=None if no_wait else timeout,
        )
    return _say(outcomes, as_json, " off" if off else f" to {_limit(most)}")


def step_down(
    file: FileArgument,
    link: LinkOption = None,
    reason: ReasonOption = None,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Have the leading driver hand over to one that waits, as before an upgrade of its machine.

    Where no other waits, it leads again itself after a moment.
    """
    from causeway.operate import directives

    settings = load(file, quiet=True)
    with waiting() as told:
        told("waiting until another driver leads")
        outcomes = directives.step_down(
            settings, link=link, reason=reason, wait_s=None if no_wait else timeout
        )
    return _say(outcomes, as_json)


def parse_rate(text: str, option: str = "--rate") -> int | None:
    """Bytes a second; None for `unlimited`. Raises ConfigError."""
    from causeway.link_topics import MOST_RATE

    if text.strip() == _UNLIMITED:
        return None
    found = _RATE.fullmatch(text.strip())
    value = 0 if found is None else int(Decimal(found[1]) * _UNITS[found[2]])
    if not 1 <= value <= MOST_RATE:
        cause = "not a number of bytes a second" if value < 1 else "faster than anything"
        shown = text if len(text) <= _LONG else f"{text[:_LONG]}…"
        raise ConfigError("read option", f"{option} {shown}", cause, remedy="such as 500kB or 10MB")
    return value


def _limit(bytes_per_s: int | None) -> str:
    return "no limit" if bytes_per_s is None else f"{bytes_per_s:,} bytes/s"


def _say(outcomes: Sequence[DirectiveOutcome], as_json: bool, to: str = "") -> int:
    """`to`: what was asked for, behind the scope."""
    from causeway.operate import directives

    if as_json:
        print_json({"links": [directives.outcome_json(each) for each in outcomes]})
    else:
        out = console()
        for each in outcomes:
            _show(out, each, to)
    if not directives.all_acted(outcomes):
        return NobodyLeadsError.exit_code
    return next((each.error.exit_code for each in outcomes if each.error is not None), 0)


def _show(out: Any, each: DirectiveOutcome, to: str) -> None:
    from rich.table import Table
    from rich.text import Text

    out.print(Text(each.link, "bold"), f"{each.action} {each.scope}{to}: {_result(each)}")
    for line in _besides(each):
        out.print(f"  {line}")
    topics: dict[str, Counter[str]] = {}
    for one in each.seen:
        topics.setdefault(one.topic, Counter())[one.state] += 1
    if not topics:
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("topic", overflow="fold")
    table.add_column("partitions", overflow="fold")
    for topic, states in sorted(topics.items()):
        table.add_row(topic, ", ".join(f"{many} {state}" for state, many in states.most_common()))
    out.print(table)
    for one in each.seen:
        if one.state in ("stopped", "failed") and one.reason:
            out.print(Text(one.state, "red"), f"{one.topic}-{one.partition}: {one.reason}")


def _result(each: DirectiveOutcome) -> str:
    if each.error is not None:
        return f"not asked: {each.error}"
    if not each.changed:
        return "nothing to change"
    if each.driver is None:
        return "noted; no driver leads now, the next one will act on it"
    if each.acted is None:
        return f"noted; {each.driver} leads and will act on it"
    if not each.acted:
        why = f": {each.refused}" if each.refused else ""
        return f"noted, but {each.driver} has not acted yet{why}"
    if each.action == "step-down":
        gap = "" if each.gap_ms is None else f", {duration(max(0, each.gap_ms))} without a leader"
        return f"{each.driver} leads now{gap}"
    return f"done by {each.driver}, {count(len(each.seen), 'partition')}"


def _besides(each: DirectiveOutcome) -> Iterator[str]:
    from causeway.link_topics import PauseDirective, ThrottleDirective

    before = each.before
    if before is not None:
        what = before.kind.value
        if isinstance(before, PauseDirective):
            what = f"{before.scope} was paused" if before.paused else f"{before.scope} was not"
        elif isinstance(before, ThrottleDirective):
            what = f"{before.scope} had {_limit(before.bytes_per_s)}"
        if before.kind.holds:
            yield f"{what} {before.by}"
        else:
            yield f"the last {what} was at {moment(before.at)}, by {before.who}"
    for part in each.beside:
        yield f"still paused: {part.scope} {part.by}"


def directive_lines(directives: Iterable[Directive]) -> Iterator[Text]:
    """A line for each, but for what is chosen, and for the topics of a link that has ended as a
    whole."""
    from rich.text import Text

    from causeway.control import geo_topics
    from causeway.link_topics import (
        THE_LINK,
        BeginDirective,
        CutoverDirective,
        EndDirective,
        FenceDirective,
        PauseDirective,
        ThrottleDirective,
    )

    directives = geo_topics.without_chosen(directives)
    ended = any(isinstance(each, EndDirective) and each.scope == THE_LINK for each in directives)
    for each in directives:
        if isinstance(each, BeginDirective):
            continue  # done once, and of no matter since
        if isinstance(each, EndDirective) and ended and each.scope != THE_LINK:
            continue
        if isinstance(each, ThrottleDirective):
            to = "no limit" if each.bytes_per_s is None else f"{size(each.bytes_per_s)}/s"
            what, about = "throttled", f"{each.scope} to {to}"
        elif isinstance(each, FenceDirective):
            what, about = "fenced", f"{each.scope} until {moment(each.until)} (driver's clock)"
        elif isinstance(each, CutoverDirective):
            what, about = "cut over", str(each.scope)
        elif isinstance(each, EndDirective):
            what, about = each.how.value, str(each.scope)
        elif isinstance(each, PauseDirective):
            what, about = ("paused" if each.paused else "not paused"), str(each.scope)
        yield Text.assemble((what, "magenta"), " ", printable(f"{about} {each.by}"))
