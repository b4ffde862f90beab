"""Who gets which events."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from io import StringIO

import pytest

from causeway.cli import present


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("causeway")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:], root.level, ours.level = before


@pytest.mark.parametrize(("level", "shown"), [(logging.INFO, 2), (logging.WARNING, 1)])
def test_what_is_not_shown_is_heard_all_the_same(level: int, shown: int) -> None:
    """A terminal shows warnings alone, and the run's events are still there to be asked for."""
    text, heard = StringIO(), []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    listener, log = Listener(), logging.getLogger("causeway.run")
    logging.getLogger("causeway").addHandler(listener)
    try:
        present.set_up_logs(level, logging.StreamHandler(text))
        log.debug("too small")
        log.info("begin")
        log.warning("paused")
        logging.getLogger("others").info("not ours")
    finally:
        logging.getLogger("causeway").removeHandler(listener)
    assert heard == ["begin", "paused"]
    assert len(text.getvalue().splitlines()) == shown
