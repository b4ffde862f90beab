"""Deliberate breaks of the mirror: each takes one guard away, and a simulation must find it. See
tests/README.md.

A mutation changes code of causeway in this process, for one run.
"""

from __future__ import annotations

from tests.simulation.mutations.mirror import MIRROR
from tests.simulation.mutations.moving import MOVING
from tests.simulation.mutations.mutation import Mutation
from tests.simulation.mutations.same_offsets import SAME_OFFSETS
from tests.simulation.mutations.sending import SENDING

MUTATIONS: dict[str, Mutation] = {**SENDING, **SAME_OFFSETS, **MIRROR, **MOVING}

__all__ = ["MUTATIONS", "Mutation"]
