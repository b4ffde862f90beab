"""`causeway pause | resume | restart | throttle | step-down FILE`: requests to a running mirror."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causeway.cli.common import (
    console,
    grid,
    labelled,
    load,
    print_json,
    styled,
    waiting,
    with_chosen,
)
from causeway.cli.guard import unconfirmed
from causeway.cli.options import (
    FileArgument,
    JsonOption,
    LinkOption,
    NoWaitOption,
    ReasonOption,
    TimeoutOption,
    TopicOption,
    YesOption,
    valued,
)
from causeway.cli.words import count, duration, moment, size
from causeway.errors import ConfigError, NobodyLeadsError

if TYPE_CHECKING:
    from rich.text import Text

    from causeway.link_topics import Directive
    from causeway.operate.directives import DirectiveOutcome

PartitionOption = Annotated[
    int | None,
    valued("--partition", "N", "Only this partition of the topic."),
]
AheadOption = Annotated[
    bool,
    typer.Option("--ahead", help="Accept a topic that does not exist yet; it applies to it later."),
]

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(|k|M|G|Ki|Mi|Gi)B?(?:/s)?")
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_UNLIMITED = "unlimited"
_LONG = 40  # characters of an option that an error quotes


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
    """Stop mirroring a link, topic or partition until it is resumed.

    Applies to all drivers of the file, also to those that start later.
    """
    asked = {"link": link, "topic": topic, "partition": partition, "ahead": ahead, "reason": reason}
    return _request("pause", "paused it", file, as_json, asked, None if no_wait else timeout)


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
    """Continue a paused link, topic or partition at its position: no record is lost or doubled."""
    asked = {"link": link, "topic": topic, "partition": partition, "reason": reason}
    return _request("resume", "resumed it", file, as_json, asked, None if no_wait else timeout)


def restart(
    file: FileArgument,
    link: LinkOption = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt",
            help="Accept the loss of records: continue without them, or with the records on the "
            "target.",
        ),
    ] = False,
    translate: Annotated[
        str | None,
        valued(
            "--translate",
            "TOPIC",
            "Let stopped partitions of this topic, which keeps its offsets, go on with translated"
            " offsets.",
        ),
    ] = None,
    refill: Annotated[
        str | None,
        valued(
            "--refill",
            "TOPIC",
            "Delete the mirror of this topic, which keeps its offsets, and mirror it again. Without"
            " --yes, only show what that costs.",
        ),
    ] = None,
    yes: YesOption = False,
    reason: ReasonOption = None,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Retry stopped and failed partitions now.

    The driver checks each partition as at the first start. A partition that could lose or double
    records stops again, unless --adopt accepts the loss.
    """
    wait_s = None if no_wait else timeout
    ways = [adopt, translate is not None, refill is not None]
    if sum(ways) > 1 or (topic is not None and not adopt and any(ways)):
        raise ConfigError(
            "restart",
            cause="--adopt, --translate TOPIC and --refill TOPIC exclude each other",
            remedy="give one; --translate and --refill take no --topic",
        )
    if refill is not None:
        given = {"link": link, "topic": refill, "reason": reason, "wait_s": wait_s}
        return _refill(file, given, as_json, yes)
    asked = {"link": link, "topic": topic, "partition": partition, "adopt": adopt, "reason": reason}
    to = " --adopt" if adopt else ""
    if translate is not None:
        asked |= {"topic": translate, "translate": True}
        to = " --translate"
    return _request("restart", "retried it", file, as_json, asked, wait_s, to)


def _refill(file: Path, asked: Mapping[str, Any], as_json: bool, yes: bool) -> int:
    from causeway.operate import directives

    settings = with_chosen(load(file, quiet=True))
    with waiting() as say:
        say("waiting until the driver has deleted the mirror")
        found = directives.refill(settings, dry_run=not yes, **asked)
    if as_json:
        print_json(directives.refill_json(found))
    else:
        out = console()
        rate = size(directives.COPIED_PER_S)
        out.print(
            styled(found.link, "bold"),
            f"refill {found.topic}: deletes {found.target}, and mirrors its "
            f"{count(found.partitions, 'partition')} again with the same offsets. That"
            f" copies up to {count(found.offsets, 'record')}, about {size(found.size)}"
            + (f", after {count(found.fills, 'offset')} are filled" if found.fills else "")
            + f", in about {duration(1000 * found.seconds)} at {rate}/s. Consumers of"
            f" {found.target} are interrupted, and find no records until they are mirrored again.",
        )
        if found.outcome is not None:
            _show(out, found.outcome, "")
    if found.outcome is None:
        return unconfirmed(dry_run=False)
    return NobodyLeadsError.exit_code if found.outcome.acted is False else 0


def throttle(
    file: FileArgument,
    rate: Annotated[
        str | None,
        valued(
            "--rate",
            "RATE",
            "Bytes per second to read from the source: 500kB, 10MB, 1GiB, or unlimited.",
        ),
    ] = None,
    off: Annotated[
        bool, typer.Option("--off", help="Remove the limit: the rate of the file applies again.")
    ] = False,
    link: LinkOption = None,
    topic: TopicOption = None,
    reason: ReasonOption = None,
    ahead: AheadOption = False,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Limit the rate of a link or topic, while it runs."""
    if (rate is None) != off:
        cause = "give either a rate or --off"
        raise ConfigError("throttle", cause=cause, remedy="--rate 10MB, or --off")
    most = None if rate is None else parse_rate(rate)
    asked: dict[str, Any] = {"link": link, "topic": topic, "ahead": ahead, "reason": reason}
    to = " off" if off else f" to {_limit(most)}"
    asked |= {"bytes_per_s": most, "off": off}
    return _request("throttle", "set it", file, as_json, asked, None if no_wait else timeout, to)


def step_down(
    file: FileArgument,
    link: LinkOption = None,
    reason: ReasonOption = None,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Hand a link over from the leading driver to a standby, for example before an upgrade.

    Without a standby, the same driver leads again after a moment.
    """
    asked = {"link": link, "reason": reason}
    return _request("step_down", "", file, as_json, asked, None if no_wait else timeout)


def parse_rate(text: str, option: str = "--rate") -> int | None:
    """Returns bytes per second. None for `unlimited`. Raises ConfigError."""
    from causeway.link_topics import MOST_RATE

    if text.strip() == _UNLIMITED:
        return None
    found = _RATE.fullmatch(text.strip())
    value = 0 if found is None else int(Decimal(found[1]) * _UNITS[found[2]])
    if not 1 <= value <= MOST_RATE:
        cause = "not a number of bytes per second" if value < 1 else "the rate is too high"
        shown = text if len(text) <= _LONG else f"{text[:_LONG]}…"
        raise ConfigError("read option", f"{option} {shown}", cause, remedy="such as 500kB or 10MB")
    return value


def _limit(bytes_per_s: int | None) -> str:
    return "no limit" if bytes_per_s is None else f"{bytes_per_s:,} bytes/s"


def _request(
    action: str,
    done: str,
    file: Path,
    as_json: bool,
    asked: Mapping[str, Any],
    wait_s: float | None,
    to: str = "",
) -> int:
    """Sends a request and shows the outcomes. `done` completes "the driver has …". `to`: the
    requested value."""
    from causeway.operate import directives

    settings = with_chosen(load(file, quiet=True))
    with waiting() as say:
        say(f"waiting until {f'the driver has {done}' if done else 'another driver leads'}")
        outcomes = getattr(directives, action)(settings, wait_s=wait_s, **asked)
    return show_outcomes(outcomes, as_json, to)


def show_outcomes(outcomes: Sequence[DirectiveOutcome], as_json: bool, to: str = "") -> int:
    """Shows the outcome for each link. Returns the exit code. `to`: the requested value."""
    from causeway.operate import directives

    if as_json:
        print_json({"links": [directives.outcome_json(each) for each in outcomes]})
    else:
        out = console()
        for each in outcomes:
            _show(out, each, to)
    if any(each.acted is False for each in outcomes):
        return NobodyLeadsError.exit_code
    return next((each.error.exit_code for each in outcomes if each.error is not None), 0)


def _show(out: Any, each: DirectiveOutcome, to: str) -> None:
    out.print(styled(each.link, "bold"), f"{each.action} {each.scope}{to}: {_result(each)}")
    for line in _details(each):
        out.print(f"  {line}")
    topics: dict[str, Counter[str]] = {}
    for one in each.seen:
        topics.setdefault(one.topic, Counter())[one.state] += 1
    if not topics:
        return
    table = grid("topic", "partitions")
    for topic, states in sorted(topics.items()):
        table.add_row(topic, ", ".join(f"{many} {state}" for state, many in states.most_common()))
    out.print(table)
    for one in each.seen:
        if one.state in ("stopped", "failed") and one.reason:
            out.print(styled(one.state, "red"), f"{one.topic}-{one.partition}: {one.reason}")


def _result(each: DirectiveOutcome) -> str:
    if each.error is not None:
        return f"not changed: {each.error}"
    if not each.changed:
        return "nothing to change"
    if each.driver is None:
        return "recorded; no driver leads now, the next one will act on it"
    if each.acted is None:
        return f"recorded; {each.driver} leads and will act on it"
    if not each.acted:
        why = f": {each.refused}" if each.refused else ""
        return f"recorded, but {each.driver} has not acted yet{why}"
    if each.action == "step-down":
        gap = "" if each.gap_ms is None else f", {duration(max(0, each.gap_ms))} without a leader"
        return f"{each.driver} leads now{gap}"
    return f"done by {each.driver}, {count(len(each.seen), 'partition')}"


def _details(each: DirectiveOutcome) -> Iterator[str]:
    from causeway.link_topics import PauseDirective, ThrottleDirective

    before = each.before
    if before is not None:
        what = before.kind.value
        if isinstance(before, PauseDirective):
            what = f"{before.scope} was {'' if before.paused else 'not '}paused"
        elif isinstance(before, ThrottleDirective):
            what = f"{before.scope} had {_limit(before.bytes_per_s)}"
        if before.kind.holds:
            yield f"{what} {before.by}"
        else:
            yield f"the last {what} was at {moment(before.at)}, by {before.who}"
    for part in each.beside:
        yield f"still paused: {part.scope} {part.by}"


def directive_lines(directives: Iterable[Directive]) -> Iterator[Text]:
    """Yields a line for each active directive, except chosen topics, and topics of a link that has
    ended as a whole."""
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
            continue  # done once, without effect since
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
        yield labelled(what, f"{about} {each.by}", "magenta")
