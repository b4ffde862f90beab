"""The page's files: all are here, none asks for anything from elsewhere, and what the browser is
told lets them work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.builders.served import TOKEN, client

PAGE = Path(__file__).parents[3] / "src" / "causeway" / "http" / "page"
OURS = sorted(each for each in PAGE.iterdir() if each.suffix in (".js", ".css", ".html"))
VENDORED = sorted(each for each in (PAGE / "vendor").iterdir() if each.suffix in (".js", ".css"))


def test_a_browser_gets_the_page_and_all_that_it_names() -> None:
    with client(token=TOKEN) as app:  # it asks for the token itself
        home = app.get("/", headers={"accept": "text/html"})
        assert home.headers["location"] == "/page/"
        index = app.get("/page/")
        assert index.headers["content-type"].startswith("text/html")
        for name in re.findall(r'(?:src|href)="([^"]+)"', index.text):
            answer = app.get(f"/page/{name}")
            assert answer.status_code == 200, name
            kind = "javascript" if name.endswith(".js") else name.rpartition(".")[2]
            assert kind in answer.headers["content-type"]


@pytest.mark.parametrize("file", OURS, ids=lambda each: each.name)
def test_every_import_is_a_file_that_has_what_is_imported(file: Path) -> None:
    for names, place in re.findall(r'import \{([^}]*)\} from "([^"]+)"', file.read_text()):
        text = (PAGE / place).resolve(strict=True).read_text()
        for name in filter(None, (each.strip() for each in names.split(","))):
            ours = rf"export (async function|function|const|class) {name}\b"
            bundled = rf"export\{{[^}}]*\b{name}[,}}]"
            assert re.search(ours, text) or re.search(bundled, text), f"{place} has no {name}"


@pytest.mark.parametrize("file", [*OURS, *VENDORED], ids=lambda each: each.name)
def test_nothing_comes_from_elsewhere(file: Path) -> None:
    text = re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.DOTALL)
    found = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]+", text))
    assert found <= {"http://www.w3.org", "//www.w3.org"}


@pytest.mark.parametrize("file", OURS, ids=lambda each: each.name)
def test_nothing_needs_a_laxer_policy(file: Path) -> None:
    """No script or style within HTML, and none that is made of text."""
    text = file.read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son[a-z]+=\"|style=\"", text)
    assert not re.search(
        r"\beval\(|new Function|innerHTML|insertAdjacentHTML|document\.write", text
    )


def test_each_library_has_its_licence_beside_it() -> None:
    told = (PAGE / "vendor" / "README.md").read_text()
    for file in VENDORED:
        assert file.name in told
    for licence in ("htm-LICENSE.txt", "preact-LICENSE.txt", "uplot-LICENSE.txt"):
        assert len((PAGE / "vendor" / licence).read_text()) > 500
