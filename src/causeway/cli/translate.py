"""`causeway translate FILE`: translates offsets for consumers that store their own offsets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import (
    console,
    grid,
    load,
    parse_timestamp,
    print_json,
    styled,
    waiting,
    with_chosen,
)
from causeway.cli.options import FileArgument, JsonOption, LinkOption, valued
from causeway.cli.words import number, printable
from causeway.errors import ConfigError

if TYPE_CHECKING:
    from rich.text import Text

    from causeway.translation import Answer, MappedOffset, Question

_NOT_EXACT = 7


def command(
    file: FileArgument,
    topic: Annotated[
        str | None,
        valued("--topic", "TOPIC", "The topic, by its name on the cluster of the given offsets."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="N", help="A partition of the topic.")
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option(
            "--offset", metavar="N", help="The next offset to read, as consumers commit it."
        ),
    ] = None,
    timestamp: Annotated[
        str | None,
        valued(
            "--timestamp",
            "TIME",
            "Or the first record of this time or later (ISO 8601, or ms since 1970).",
        ),
    ] = None,
    given: Annotated[
        str | None,
        valued(
            "--input",
            "FILE",
            "Or many offsets: CSV (topic,partition,offset) or JSON lines; - is stdin.",
        ),
    ] = None,
    back: Annotated[
        bool, typer.Option("--back", help="Translate from the target to the source.")
    ] = False,
    link: LinkOption = None,
    as_json: JsonOption = False,
) -> int:
    """Translate the offsets of a consumer that stores them itself to those on the other cluster.

    An offset is the next record to read. Exits with 7 if an offset is not exact, with the reason.
    """
    from causeway.translation import OffsetNote, answer_json, translate

    questions = _questions(topic, partition, offset, timestamp, given)
    settings = with_chosen(load(file, quiet=True))
    with waiting() as say:
        say("translating offsets")
        answers = translate(settings, questions, link=link, back=back)
    if given is None and all(each.why is OffsetNote.UNKNOWN for each in answers):
        side = "target" if back else "source"
        remedy = f"topics are named as on the {side}" + ("" if back else "; --back for the target")
        raise ConfigError("translate", f"{topic}-{partition}", answers[0].note or "", remedy=remedy)
    if as_json:
        print_json({"answers": [answer_json(each) for each in answers]})
    else:
        _show(answers)
    return 0 if all(each.exact for each in answers) else _NOT_EXACT


def _questions(
    topic: str | None,
    partition: int | None,
    offset: int | None,
    timestamp: str | None,
    given: str | None,
) -> Sequence[Question]:
    from causeway.translation import Question, read_questions

    one = (topic, partition, offset, timestamp)
    if given is not None:
        if any(each is not None for each in one):
            raise ConfigError(
                "translate", "--input", "it excludes --topic, --partition, --offset and --timestamp"
            )
        try:
            if given == "-":
                return read_questions(sys.stdin.read(), "stdin")
            return read_questions(Path(given).read_text(encoding="utf-8"), given)
        except (OSError, UnicodeDecodeError) as error:
            name = "stdin" if given == "-" else given
            raise ConfigError("read", name, str(error)) from error
    if topic is None or partition is None or (offset is None) == (timestamp is None):
        cause = "an offset to translate is missing"
        remedy = "--topic, --partition, and --offset or --timestamp; or --input FILE"
        raise ConfigError("translate", cause=cause, remedy=remedy)
    time = None if timestamp is None else parse_timestamp(timestamp)
    return [Question(topic=topic, partition=partition, offset=offset, timestamp=time)]


def _show(answers: Sequence[Answer]) -> None:
    links = {each.link for each in answers}
    table = grid(*(["link"] if len(links) > 1 else []), "from", ">offset", "to", ">offset", "")
    for each in answers:
        before = [each.link or ""] if len(links) > 1 else []
        asked = "–" if each.offset is None else number(each.offset)
        rows = [_row(place) for place in each.places]
        if not rows:
            rows = [("–", "–", styled(printable(f"{each.why}: {each.note}"), "yellow"))]
        for row in rows:
            table.add_row(*before, str(each.question.at), asked, *row)
    console().print(table)


def _row(place: MappedOffset) -> tuple[str, str, Text]:
    at = f"{place.topic}-{place.partition}"
    there = "–" if place.offset is None else number(place.offset)
    if place.exact:
        said = styled("exact" if place.note is None else printable(f"exact; {place.note}"))
    else:
        said = styled(printable(f"not exact, {place.why}: {place.note}"), "yellow")
    return at, there, said
