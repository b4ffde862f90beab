"""How long it takes on the page from a click until what was asked for can be seen, in a headless
Chromium, with a driver's own rows and reports of so many partitions behind it.

    python -m bench.page PARTITIONS      serves such a run, until its standard input ends

The brokers have no part in it: the run is made up (`bench.simulated`), and moves each second.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from bench.simulated import EACH, Run
from causeway.cli.main import GC_THRESHOLD
from causeway.config import HttpSettings, RunSettings, Settings
from causeway.daemon import short_collections
from causeway.errors import CausewayError
from causeway.http import served

if TYPE_CHECKING:
    from playwright.sync_api import Page

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_ORDER = "select[aria-label=Order]"
_ROUNDS = 5
_PAUSE_MS = 1_000  # of a reader, between two clicks
_TIMEOUT_MS = 120_000
# What a list shows while it asks anew is what it had, so the answer must have come, too. A frame
# after the one that has it, it is painted.
_CLICK = """async ([selector, text, asked, option]) => {
  const seen = () => document.querySelector("main").textContent.replaceAll("\\u202f", ",");
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const answered = () => performance.getEntriesByType("resource")
    .some((each) => each.startTime >= begun && each.name.includes(asked));
  performance.clearResourceTimings();
  const element = document.querySelector(selector);
  const begun = performance.now();
  if (option === null) element.click();
  else {
    element.value = option;
    const kind = element.tagName === "SELECT" ? "change" : "input";
    element.dispatchEvent(new Event(kind, { bubbles: true }));
  }
  while (!(asked === "" || answered()) || !new RegExp(text).test(seen())) {
    if (performance.now() - begun > 20000) throw new Error(`${selector}: ${seen()}`);
    await frame();
  }
  await frame();
  await frame();
  return performance.now() - begun;
}"""

Say = Callable[[str], None]


class _Step(NamedTuple):
    """`at`: a selector of what is clicked; `seen`: a pattern of the text that is there then;
    `asked`: part of the address whose answer it waits for; `option`: what is typed or chosen, if it
    is no click."""

    name: str
    at: str
    seen: str
    asked: str
    option: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSpeed:
    """`clicks`: by what was done, the median of its rounds, in ms; `slowest_ms`: the most of all
    clicks of all rounds."""

    partitions: int
    clicks: Mapping[str, float]
    slowest_ms: float


def measure(partitions: int, say: Say) -> PageSpeed:
    topics, all_of_them = f"{partitions // EACH:,}", f"{partitions:,}"
    steps = [
        _Step("topics", "nav a[href='#/topics']", f"50 of {topics}", "/topics?"),
        _Step("next page", ".pages button:last-child", f"51 – 100 of {topics}", "offset=50"),
        _Step("worst state first", _ORDER, f"1 – 50 of {topics}", "order=state", "state"),
        _Step("most behind", _ORDER, f"1 – 50 of {topics}", "order=lag", "lag"),
        _Step("search a topic", "input[type=search]", "of 11?B", "search=orders-421", "orders-421"),
        _Step("a topic's partitions", "button.fold", "mirrored to", "/partitions?link"),
        _Step("partitions", "nav a[href='#/partitions']", f"50 of {all_of_them}", "/partitions?"),
        _Step(
            "next partitions", ".pages button:last-child", f"51 – 100 of {all_of_them}", "offset=50"
        ),
        _Step("events", "nav a[href='#/events']", "Nothing has happened", "/events?"),
        _Step("lanes", "nav a[href='#/lanes']", "No lane is connected", "/lanes?"),
        _Step("problems", "nav a[href='#/problems']", "Nothing keeps a topic", "/problems?"),
        _Step("overview", "nav a[href='#/overview']", "0 of 2 lanes", ""),
    ]
    took: dict[str, list[float]] = {step.name: [] for step in steps}
    with _made_up(partitions) as address, _page() as page:
        page.goto(f"{address}/page/")
        page.wait_for_selector("nav a", timeout=_TIMEOUT_MS)
        for number in range(-1, _ROUNDS):  # the first is not counted
            for step in steps:
                page.wait_for_timeout(_PAUSE_MS)
                page.wait_for_selector(step.at, timeout=_TIMEOUT_MS)
                what = [step.at, step.seen, step.asked, step.option]
                ms = float(page.evaluate(_CLICK, what))
                if number >= 0:
                    took[step.name].append(ms)
    found = PageSpeed(
        partitions=partitions,
        clicks={name: median(each) for name, each in took.items()},
        slowest_ms=max(max(each) for each in took.values()),
    )
    slowest = max(found.clicks, key=lambda name: found.clicks[name])
    say(f"{slowest} {found.clicks[slowest]:.0f} ms, the slowest of all {found.slowest_ms:.0f} ms")
    return found


@contextmanager
def _made_up(partitions: int) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.page", str(partitions)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


@contextmanager
def _page() -> Iterator[Page]:
    named = os.environ.get("CAUSEWAY_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        raise CausewayError("measure", "the page", "no Chromium on this machine: install one")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=["--disable-gpu"], chromium_sandbox=os.geteuid() != 0
        )
        try:
            yield browser.new_page(viewport={"width": 1400, "height": 900})
        finally:
            browser.close()


def main(partitions: int) -> None:
    run = Run(partitions)
    over = threading.Event()

    def move() -> None:
        while not over.wait(1.0):
            run.move()

    settings = Settings(links=(), run=RunSettings(http=HttpSettings(port=0)), spark={})
    gc.set_threshold(GC_THRESHOLD)  # as the driver has it
    with short_collections(), served(settings) as serving:
        serving.take(run.look)
        mover = threading.Thread(target=move, daemon=True)
        mover.start()
        print(serving.address, flush=True)
        sys.stdin.read()
        over.set()
        mover.join()


if __name__ == "__main__":
    main(int(sys.argv[1]))
