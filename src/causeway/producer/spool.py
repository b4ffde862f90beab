"""The directory of one producer: its records (journal) and what is known of them (ledger)."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from causeway.errors import CausewayError, ConfigError
from causeway.producer.journal import Journal
from causeway.producer.ledger import Ledger
from causeway.producer.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Spool:
    """`identity`: what ids of its records begin with, this spool's alone, whatever name others
    were given. `life`: how often it was opened, this time included."""

    name: str
    identity: str
    life: int
    ledger: Ledger
    journal: Journal

    def close(self) -> None:
        self.journal.close()
        self.ledger.close()


def open_spool(options: Options, on_damage: Callable[[str], None]) -> Spool:
    """Begins a life. `on_damage`: as of `Journal`. Raises ConfigError for what is no spool, or
    another producer's; ConflictError where a process has it open."""
    directory = options.spool
    ledger = None
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        ledger = Ledger(directory)
        name, identity = _name(options, ledger)
        life = int(ledger.about("life") or 0) + 1
        ledger.note("life", str(life))
        durable = options.sync == "machine"
        journal = Journal(directory, most=options.max_bytes, durable=durable, on_damage=on_damage)
    except (OSError, ValueError, sqlite3.Error, CausewayError) as error:
        if ledger is not None:
            ledger.close()
        if isinstance(error, CausewayError):
            raise
        raise ConfigError("open", f"spool {directory}", str(error)) from error
    return Spool(name=name, identity=identity, life=life, ledger=ledger, journal=journal)


def _name(options: Options, ledger: Ledger) -> tuple[str, str]:
    """The one that it was given at first, and what its ids begin with. Its sides are those of then
    as well."""
    known = ledger.about("name")
    if known is not None and options.name not in (None, known):
        raise ConfigError(
            "open",
            f"spool {options.spool}",
            f"it belongs to producer {known}, and the name given is {options.name}",
            remedy="give each producer a directory of its own",
        )
    sides = " ".join(side.name for side in options.sides)
    before = ledger.about("sides")
    if before is not None and set(before.split()) != set(sides.split()):
        raise ConfigError(
            "open",
            f"spool {options.spool}",
            f"its sides are {before}, and the names given {sides}",
            remedy="give the names that it had",
        )
    token = secrets.token_hex(6)
    name = known or options.name or token
    # Two spools may be given one name: then each would take the other's records for its own.
    identity = ledger.about("identity") or (token if name == token else f"{name}.{token}")
    for key, value in (("name", name), ("identity", identity), ("sides", sides)):
        ledger.note(key, value)
    return name, identity
