"""Logs on stderr, one line an event in logfmt: `time=… level=… event="…" key=value …`.

What an event is about is passed as `extra`, so that a machine can read it:

    log.warning("partition failed", extra={"link": "A->B", "partition": "orders-3"})
"""

from __future__ import annotations

import json
import logging
import re
import time
from typing import Final

from causeway.cli.guard import debugging
from causeway.cli.words import printable_json, printable_lines

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}
_BARE: Final = re.compile(r"[\w.,:/+@>-]+")


class Logfmt(logging.Formatter):
    """UTC, with milliseconds; values are quoted as in JSON where they hold anything unusual."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, object] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        fields |= {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        line = " ".join(f"{name}={_value(value)}" for name, value in fields.items())
        if record.exc_info and debugging():
            line += "\n" + printable_lines(self.formatException(record.exc_info))
        return line


def _value(value: object) -> str:
    text = str(value)
    return text if _BARE.fullmatch(text) else printable_json(json.dumps(text, ensure_ascii=False))


def set_up(level: int = logging.INFO, handler: logging.Handler | None = None) -> None:
    """Causeway's own events from `level` on, and other packages' from WARNING on. Other handlers of
    Causeway's get its events from INFO on."""
    level = logging.DEBUG if debugging() else level
    handler = handler or logging.StreamHandler()
    handler.setFormatter(Logfmt())
    handler.setLevel(level)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    # py4j reports every socket that a stopping JVM closes, and the driver says so itself.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("causeway").setLevel(min(level, logging.INFO))
