"""How `causeway dev load` ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

import causeway.dev.load as writing
from causeway.cli.dev import run_load
from causeway.dev.load import LoadTally, Stream


def test_a_second_interrupt_waits_for_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def write(
        _: str, __: Stream, stop: asyncio.Event, ___: Callable[[LoadTally], None]
    ) -> LoadTally:
        os.kill(os.getpid(), signal.SIGINT)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(asyncio.Event().wait(), 10)  # an answer that does not come
        return LoadTally()

    monkeypatch.setattr(writing, "write", write)
    with pytest.raises(KeyboardInterrupt):
        run_load("nobody:1", Stream(topic="events"), "A")


def test_one_interrupt_lets_it_come_to_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def write(
        _: str, __: Stream, stop: asyncio.Event, ___: Callable[[LoadTally], None]
    ) -> LoadTally:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        return LoadTally(records=7)

    monkeypatch.setattr(writing, "write", write)
    run_load("nobody:1", Stream(topic="events"), "A")
    assert "7 records" in capsys.readouterr().out
