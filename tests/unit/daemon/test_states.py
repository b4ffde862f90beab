"""The words for how a link stands."""

from __future__ import annotations

import pytest

from causeway.daemon.states import of_partitions
from causeway.model import State


@pytest.mark.parametrize(
    ("states", "word"),
    [
        ([], "mirroring"),
        ([State.RUNNING, State.WAITING, State.RECOVERING, State.DONE], "mirroring"),
        ([State.PAUSED, State.PAUSED], "paused"),
        ([State.PAUSED, State.RUNNING], "mirroring"),
        ([State.FAILED], "failed"),
        ([State.FAILED_OVER], "failed over"),
    ],
)
def test_a_link_is_what_all_its_partitions_are(states: list[State], word: str) -> None:
    assert of_partitions(states) == word
