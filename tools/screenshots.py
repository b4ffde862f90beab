"""Takes the screenshots of the live page for README.md: `make screenshots`.

The script runs the clusters and the mirror of the demo, replays its flights with timestamps of
now, and photographs the overview in Chromium while the mirror works.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from causeway.errors import CausewayError, PrerequisiteError
from examples.demo.ground import Ground, PassingGround
from examples.demo.publish import TOPICS, Dispatch, Publisher, create_topics, flight_stream
from tests.harness.browser import Watched, chromium

_IMAGES = Path(__file__).parents[1] / "docs" / "images"
_WIDTH, _HEIGHT = 1180, 690  # pixels
_WAIT_S = 60.0
# Records per second, each rate for a while: the charts show a stream that changes.
_RATES = (900, 1500, 2200, 1300, 2600, 1900, 700, 1600)
_EACH_S = 9.0
_PICTURE_AFTER_S = 1.5  # the page asks for the newest figures every second


def main() -> int:
    ground = PassingGround()
    try:
        _photograph(ground)
    except pytest.skip.Exception as missing:  # the harness skips a test without Chromium
        print(f"screenshots: error: {missing.msg}", file=sys.stderr)
        return PrerequisiteError.exit_code
    except CausewayError as error:
        print(f"screenshots: error: {error}", file=sys.stderr)
        return error.exit_code
    finally:
        ground.down()
    return 0


def _photograph(ground: Ground) -> None:
    flights = iter(flight_stream())
    ground.up()
    create_topics(ground.source, TOPICS)
    ground.start_mirror()
    address = _page_address(ground)
    publisher = Publisher(ground.source, TOPICS)
    for rate in _RATES:
        until = time.monotonic() + _EACH_S
        while time.monotonic() < until:
            publisher.publish([_now(next(flights)) for _ in range(rate // 5)], per_s=rate)
            ground.check_mirror()
    # Chromium needs a processor: it starts when the figures are there.
    with chromium() as browser:
        publisher.start([_now(next(flights)) for _ in range(60_000)], per_s=_RATES[-1])
        try:
            for theme in ("light", "dark"):
                seen = Watched(browser, address, dark=theme == "dark")
                seen.page.set_viewport_size({"width": _WIDTH, "height": _HEIGHT})
                seen.open()
                seen.page.wait_for_selector(".charts canvas")
                time.sleep(_PICTURE_AFTER_S)
                seen.page.screenshot(path=_IMAGES / f"page-{theme}.png")
        finally:
            publisher.stop()


def _page_address(ground: Ground) -> str:
    until = time.monotonic() + _WAIT_S
    while time.monotonic() < until:
        ground.check_mirror()
        if ground.page:
            return ground.page.removesuffix("/")
        time.sleep(0.2)
    raise PrerequisiteError(
        "open", "the page of the mirror", "its port is in use", remedy="stop the other run first"
    )


def _now(flight: Dispatch) -> Dispatch:
    return replace(flight, event=replace(flight.event, timestamp=int(1000 * time.time())))


if __name__ == "__main__":
    sys.exit(main())
