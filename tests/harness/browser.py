"""A real Chromium, driven by Playwright: the system's, since no package registry brings one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.harness.running import PATIENCE_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Nothing that it would look for by itself, on a machine that may be cut off.
_QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Skips the test, in words, where there is none that starts. `CAUSEWAY_CHROMIUM` names one,
    which must."""
    named = os.environ.get("CAUSEWAY_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, _NAMES)), "")
    if not found:
        pytest.skip(
            "no Chromium on this machine: the page is not tried in a browser"
            " (install chromium, or name one in CAUSEWAY_CHROMIUM)"
        )
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=found, args=list(_QUIET), chromium_sandbox=os.geteuid() != 0
            )
        except Error as error:  # as what some distributions have in its place
            if named:
                raise
            pytest.skip(f"{found} does not start: {error.message.splitlines()[0]}")
        try:
            yield browser
        finally:
            browser.close()


# That a run does not answer, or dies while it does, is what some tests are about.
_GONE = (
    "ERR_CONNECTION",
    "ERR_CONTENT_LENGTH_MISMATCH",
    "ERR_EMPTY_RESPONSE",
    "ERR_INCOMPLETE_CHUNKED_ENCODING",
)


class Watched:
    """A tab, and what it has asked for elsewhere or complained of."""

    def __init__(self, browser: Browser, base: str, *, dark: bool = False) -> None:
        context = browser.new_context(color_scheme="dark" if dark else "light")
        self.base = base
        self.page: Page = context.new_page()
        self.page.set_default_timeout(1000 * PATIENCE_S)
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda told: self._hear(told.type, told.text))
        self.page.on("request", lambda asked: self._see(asked.url))

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(gone in text for gone in _GONE):
            self.complaints.append(text)

    def _see(self, url: str) -> None:
        if not url.startswith((self.base, "data:")):
            self.complaints.append(f"asked for {url}")

    def open(self, place: str = "/overview") -> None:
        self.page.goto(f"{self.base}/page/#{place}")

    def assert_fits(self, width: int, height: int = 900) -> None:
        """Nothing has to be scrolled to the side."""
        self.page.set_viewport_size({"width": width, "height": height})
        wide = self.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{self.page.url} is {wide} wide on a screen of {width}"
