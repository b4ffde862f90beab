"""Plans of a link."""

from __future__ import annotations

from typing import Any

from causeway.operate.plan import LinkPlan
from tests.builders.settings import link


def planned(**changes: Any) -> LinkPlan:
    return LinkPlan(link=link(), **changes)
