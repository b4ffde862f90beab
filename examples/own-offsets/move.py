"""Moves a consumer's offsets in its database to the other cluster, all of them or none.

python examples/own-offsets/move.py DATABASE MM2_FILE [--back]

From the source's topics to the target's; with --back the other way. The consumer must not run
meanwhile.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from causeway.config import Settings
from causeway.formats import load
from causeway.translation import Question, translate


def move(database: sqlite3.Connection, settings: Settings, *, back: bool) -> list[str]:
    """What keeps it from being moved; nothing where it has been."""
    rows = database.execute("SELECT topic, partition, next FROM offsets").fetchall()
    questions = [Question(topic=t, partition=p, offset=n) for t, p, n in rows]
    answers = translate(settings, questions, back=back)
    troubles = []
    for one in answers:
        here = f"{one.question.at} at {one.offset}"
        if len(one.places) != 1:
            troubles.append(f"{here}: {one.note}")
        troubles += [f"{here}: {each.why}: {each.note}" for each in one.places if not each.exact]
    if len(answers) != len(questions):
        troubles.append("several flows have the topic: name one with translate's link")
    if troubles:
        return troubles
    with database:  # one transaction
        database.execute("DELETE FROM offsets")
        for one in answers:
            (place,) = one.places
            database.execute(
                "INSERT INTO offsets VALUES (?, ?, ?)",
                [place.topic, place.partition, place.offset],
            )
            print(f"{one.question.at} at {one.offset} -> {place.topic} at {place.offset}")
    return []


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("database")
    parser.add_argument("file", type=Path)
    parser.add_argument("--back", action="store_true")
    wanted = parser.parse_args(arguments)
    with closing(sqlite3.connect(wanted.database)) as database:
        troubles = move(database, load(wanted.file), back=wanted.back)
    for each in troubles:
        print(each, file=sys.stderr)
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
