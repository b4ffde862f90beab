"""What a call of verify leaves for the next one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from causeway.errors import ConfigError
from causeway.model import Pair
from causeway.operate.verify.outcome import Range, RangeOutcome
from causeway.operate.verify.state import AgreedFile
from tests.builders.verify import FEED


def _outcome(records: int) -> RangeOutcome:
    part = Range(
        feed=FEED,
        start=None,
        end=Pair(0, 0, 0),
        source_from=0,
        target_from=0,
        target_to=0,
    )
    return RangeOutcome(
        range=part, begun=0, records=records, size=10 * records, as_they_are=1, checksum=2**63
    )


def _opened(path: Path) -> AgreedFile:
    state = AgreedFile(path)
    state.open()
    return state


def test_what_agreed_is_known_again_and_neighbours_are_one(tmp_path: Path) -> None:
    path = tmp_path / "state"
    state = _opened(path)
    state.add(FEED, Pair(10, 10, 10), Pair(20, 20, 20), _outcome(10))
    state.add(FEED, Pair(0, 0, 0), Pair(10, 10, 10), _outcome(10))
    state.close()
    again = _opened(path)
    again.add(FEED, Pair(30, 30, 30), Pair(40, 40, 40), _outcome(10))
    again.close()
    known = _opened(path).agreed(FEED)
    assert known is not None
    assert known.stretches == [
        (Pair(0, 0, 0), Pair(20, 20, 20)),
        (Pair(30, 30, 30), Pair(40, 40, 40)),
    ]
    assert (known.records, known.size, known.as_they_are) == (30, 300, 3)
    assert known.checksum == 2**63
    assert _opened(path).agreed(replace(FEED, target_id="made anew")) is None
    assert _opened(path).agreed(replace(FEED, producer_id=2)) is None


def test_a_line_that_was_broken_off_is_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "state"
    state = _opened(path)
    for end in (10, 20):
        state.add(FEED, Pair(end - 10, 0, 0), Pair(end, 0, 0), _outcome(10))
    state.close()
    path.write_text(path.read_text()[:-20])
    again = _opened(path)
    known = again.agreed(FEED)
    assert known is not None
    assert known.records == 10
    again.add(FEED, Pair(10, 0, 0), Pair(20, 0, 0), _outcome(10))
    again.close()
    known = _opened(path).agreed(FEED)
    assert known is not None
    assert known.records == 20


@pytest.mark.parametrize("content", ["clusters = A, B\nx = y\n", "[1]\n[2]\n", '{"a": 1}\n{}\n'])
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(content)
    with pytest.raises(ConfigError, match="line 1 was not written by verify"):
        _opened(path)
    assert path.read_text() == content


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--state"):
        _opened(tmp_path / "nowhere" / "state")


def test_two_at_once_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "state"
    one = _opened(path)
    with pytest.raises(ConfigError, match="another verify uses it"):
        _opened(path)
    one.close()
    _opened(path).close()
