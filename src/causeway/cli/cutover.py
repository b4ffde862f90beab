"""`causeway cutover FILE`: moves topics with their consumers and producers to the target."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import console, grid, load, print_json, styled, with_chosen
from causeway.cli.failover import same_offsets
from causeway.cli.guard import unconfirmed
from causeway.cli.options import (
    TIME,
    DryRunOption,
    FileArgument,
    JsonOption,
    YesOption,
    seconds,
    valued,
)
from causeway.cli.words import count, duration, printable, printable_lines
from causeway.errors import ConfigError, PartitionsFailedError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from causeway.cli.output import Output
    from causeway.operate.cutover import Checklist, CutoverResult, Lifted, Look

_STYLES = {"done": "green", "now": "cyan", "blocked": "red", "next": "dim"}


def command(
    file: FileArgument,
    topic: Annotated[
        list[str] | None,
        valued("--topic", "TOPIC", "Only this topic, by its name on the source. Can be repeated."),
    ] = None,
    link: Annotated[
        str | None,
        valued("--link", "A->B", "The flow. Needed if the file has several."),
    ] = None,
    first: Annotated[
        str,
        typer.Option("--first", metavar="WHO", help="Who moves first: consumers or producers."),
    ] = "consumers",
    lag: Annotated[
        int,
        typer.Option(
            "--lag", metavar="RECORDS", help="The largest lag at which the cutover starts."
        ),
    ] = 0,
    fence: Annotated[
        bool,
        typer.Option(
            "--fence", help="Deny WRITE on the source's topics for all principals, by ACLs."
        ),
    ] = False,
    fence_for: Annotated[
        float,
        valued(
            "--fence-for",
            TIME,
            "Lift the fence after this time, unless the topics are promoted. Default: 5m.",
            parser=seconds,
        ),
    ] = 300.0,
    leave_group: Annotated[
        list[str] | None,
        valued("--leave-group", "GROUP", "A group that does not move. Can be repeated."),
    ] = None,
    reset_group: Annotated[
        list[str] | None,
        valued(
            "--reset-group",
            "GROUP",
            "Reset a group that is ahead on the target to its source offset. Can be repeated.",
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify/--no-verify", help="Compare source and target, record by record."),
    ] = True,
    back: Annotated[
        bool, typer.Option("--back", help="Start the reverse link at the cutover offsets.")
    ] = False,
    timeout: Annotated[
        float,
        valued(
            "--timeout",
            TIME,
            "Wait no longer than this. Default: 10m.",
            parser=seconds,
        ),
    ] = 600.0,
    undo: Annotated[
        bool,
        typer.Option("--undo", help="Lift the fence and return to the state before the cutover."),
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> int:
    """Move topics with their consumers and producers to the target, and prove that no record is
    missing.

    The state of a cutover is read from the clusters: a second call continues where the first ended.
    Exits with 7 if an operator must act first or the fence expired, with 10 if another cutover of
    the link runs, and with 11 after --timeout.
    """
    from causeway.operate.cutover import FirstMover, Wishes, cutover, result_json, undo_json
    from causeway.operate.cutover import undo as lift

    settings = with_chosen(load(file, quiet=True))
    act = yes and not dry_run
    if undo:
        lifted = lift(settings, link=link, topics=topic or (), act=act)
        if as_json:
            print_json(undo_json(lifted))
        else:
            _show_undone(console(), lifted)
        if any(error is not None for error in lifted.topics.values()):
            return PartitionsFailedError.exit_code
        pending = (lifted.topics or lifted.held or lifted.stopped) and not lifted.changed
        return unconfirmed(dry_run=dry_run) if pending else 0
    if first not in tuple(FirstMover):
        cause = "must be consumers or producers"
        raise ConfigError("read option", f"--first {first}", cause)
    wishes = Wishes(
        first=FirstMover(first),
        lag=lag,
        fence=fence,
        fence_for_s=fence_for,
        left_groups=frozenset(leave_group or ()),
        reset_groups=frozenset(reset_group or ()),
        verify=verify,
        back=back,
    )
    with _live(quiet=as_json) as on_look:
        result = cutover(
            settings,
            wishes,
            link=link,
            topics=topic or (),
            act=act,
            wait_s=timeout,
            on_look=on_look,
        )
    if as_json:
        print_json(result_json(result))
    else:
        _show(console(), result, act=act)
    return _code(result, dry_run=dry_run)


def _code(result: CutoverResult, *, dry_run: bool) -> int:
    from causeway.status import LAGS

    match result.end.value:
        case "blocked" | "lifted":
            return PartitionsFailedError.exit_code
        case "timeout":
            return LAGS
        case "shown" if result.checklist.act.value == "stop":
            return PartitionsFailedError.exit_code
        case "shown" if result.checklist.act.value != "finished":
            return unconfirmed(dry_run=dry_run)
    return 0


@contextmanager
def _live(*, quiet: bool) -> Iterator[Callable[[Checklist, Look], None]]:
    """Yields a function to call with each checklist. A terminal shows the list in place; otherwise
    each new current step is a line on stderr. At an interruption, a line says when the fence is
    lifted."""
    from rich.live import Live

    in_place = sys.stdout.isatty() and not quiet
    said = ""
    last: Look | None = None
    live = Live(console=console(), auto_refresh=False, transient=True) if in_place else None

    def report(checklist: Checklist, look: Look) -> None:
        nonlocal said, last
        last, current = look, checklist.current
        if live is not None:
            live.update(_table(checklist), refresh=True)
        elif not quiet and current is not None and current.name != said:
            said = current.name
            print(printable(f"causeway: {current.name}: {current.text}"), file=sys.stderr)

    try:
        with live or nullcontext():
            yield report
    except KeyboardInterrupt:
        if last is not None and last.fences and not last.ended:
            print(printable(f"causeway: {_fence_expiry(last)}"), file=sys.stderr)
        raise


def _table(checklist: Checklist) -> RenderableType:
    table = grid()
    table.add_column("step", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("", overflow="fold")
    for step in checklist.steps:
        left = "" if step.left_s is None else f", about {duration(step.left_s * 1000)} left"
        lines = "".join(f"\n{line}" for line in step.lines)
        state = step.state.value
        table.add_row(
            step.name,
            styled(state, _STYLES[state]),
            styled(printable_lines(step.text + left + lines)),
        )
    return table


def _show(out: Output, result: CutoverResult, *, act: bool) -> None:
    from causeway.operate.cutover import producer_lines

    topics = count(len(result.look.topics), "topic")
    out.print(styled(result.link.name, "bold"), f": {topics}, {result.wishes.first} first", sep="")
    out.print(_table(result.checklist))
    if result.through:
        out.print(styled("written through the fence:", "yellow"))
        for line in producer_lines(result.through, result.look.at_ms):
            out.print(f"  {line}")
    match result.end.value:
        case "blocked":
            out.print("an operator must act; then repeat the command to continue")
        case "lifted":
            out.print("the fence expired and was lifted: producers can write to the source again")
        case "timeout":
            out.print("not finished before --timeout; repeat the command to continue")
        case "done":
            _show_what_to_change(out, result)
    if (
        act
        and result.end.value in ("blocked", "timeout")
        and result.look.fences
        and not result.look.ended
    ):
        out.print(_fence_expiry(result.look))


def _fence_expiry(look: Look) -> str:
    left = duration(max(0, *(look.left_ms(fence.record) for fence in look.fences.values())))
    return (
        f"the fence is lifted in {left} by the driver's clock, unless the topics are promoted; "
        "--undo --yes lifts it now"
    )


def _show_what_to_change(out: Output, result: CutoverResult) -> None:
    target = result.link.target
    servers = ",".join(f"{host}:{port}" for host, port in target.bootstrap)
    if result.pause_ms is not None:
        out.print(f"producers could not write for {duration(result.pause_ms)}")
    out.print("change the configuration of the clients:")
    out.print(f"  bootstrap.servers = {servers}")
    for topic, mirror in sorted(result.look.topics.items()):
        if topic != mirror:
            out.print(f"  topic {topic} is {mirror}")
    ended = {name: end.cut for name, end in result.look.ended.items() if end.cut is not None}
    if same := same_offsets(ended):
        out.print(f"  {same}")
    left = result.wishes.left_groups
    placed = [each.name for each in result.look.groups if each.placed and each.name not in left]
    if placed:
        out.print(f"groups continue there at their positions: {', '.join(placed)}")


def _show_undone(out: Output, lifted: Lifted) -> None:
    if lifted.stopped is not None:
        ends = "ends" if lifted.changed else "would end"
        out.print(f"the running cutover {ends}: {printable(lifted.stopped)}")
    elif not lifted.topics and not lifted.held:
        out.print("nothing to undo: there is no fence")
    for scope in lifted.held:
        out.print(f"{scope}: {'is' if lifted.changed else 'would be'} mirrored again")
    for topic, error in sorted(lifted.topics.items()):
        ended = "; its mirror has ended: new records stay on the source"
        tail = ended if topic in lifted.ended else ""
        if error is not None:
            out.print(f"{topic}: its fence could not be lifted: {error}")
        elif lifted.changed:
            out.print(f"{topic}: its fence is lifted{tail}")
        else:
            out.print(f"{topic}: its fence would be lifted{tail}")
