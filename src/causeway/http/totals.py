"""A link's topics taken together."""

from __future__ import annotations

from dataclasses import dataclass

from causeway.http.view import LinkView
from causeway.status.snapshot import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """`lag_ms` of the partition furthest behind. A lag is None where one of them is unknown."""

    records: int
    records_per_s: float
    bytes_per_s: float
    lag_records: int | None
    lag_ms: int | None


def totals(link: LinkView) -> Totals:
    # Who does not lead a link knows nothing of its partitions.
    here = bool(link.topics) or link.status.role is Role.LEADING
    lags = [row.lag_records for row in link.topics] if here else [None]
    ages = [row.lag_ms for row in link.topics] if here else [None]
    return Totals(
        records=sum(row.records for row in link.topics),
        records_per_s=sum(row.records_per_s for row in link.topics),
        bytes_per_s=sum(row.bytes_per_s for row in link.topics),
        lag_records=None if None in lags else sum(lag or 0 for lag in lags),
        lag_ms=None if None in ages else max((age or 0 for age in ages), default=0),
    )
