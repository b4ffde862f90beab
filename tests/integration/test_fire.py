"""A short fire (tests/fire): everything is broken and changed at random, and an independent reader
counts. `make fire` burns for an hour, with a transform by Spark as well. CAUSEWAY_FIRE_SEED repeats
the order of the actions."""

from __future__ import annotations

import pytest

from tests.harness.battle import SEED
from tests.harness.command import causeway

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.timeout(2400)
def test_a_short_fire_is_exact() -> None:
    options = ("--minutes", "2", "--seed", str(SEED), "--no-spark")
    burnt = causeway(*options, module="tests.fire", timeout_s=2300)
    assert burnt.code == 0, f"{burnt.out}\n{burnt.err}"
