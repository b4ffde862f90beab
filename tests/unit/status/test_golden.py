"""JSON, metrics and tables are, byte for byte, what earlier versions showed: see golden/.

`python -m tests.unit.status.test_golden` records them again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from causeway.cli.live import render as live
from causeway.geo import destination_status
from causeway.link_topics import LinkDirectives, MirrorDirective, Scope
from causeway.metrics import text
from causeway.operate import listing, wait
from causeway.status import as_json
from tests.builders import samples, served

_GOLDEN = Path(__file__).parent / "golden"
_PATHS = (
    "/api/v1/overview",
    "/api/v1/clusters",
    "/api/v1/aggregates",
    "/api/v1/links",
    "/api/v1/links/A-%3EB",
    "/api/v1/topics",
    "/api/v1/topics?order=lag-time",
    "/api/v1/topics?order=state&state=stopped",
    "/api/v1/links/A-%3EB/topics/orders",
    "/api/v1/partitions",
    "/api/v1/partitions?state=failed&link=C-%3EB",
    "/api/v1/partitions?offset=2&limit=4&search=or",
    "/api/v1/links/A-%3EB/topics/orders/partitions/3",
    "/api/v1/groups",
    "/api/v1/lanes",
    "/api/v1/tasks",
    "/api/v1/directives",
    "/api/v1/transforms",
    "/api/v1/problems",
    "/api/v1/geo",
    "/api/v1/history",
    "/connectors?expand=status&expand=info",
    "/connectors/A-%3EB.MirrorSourceConnector/offsets",
    "/connectors/A-%3EB.MirrorSourceConnector/topics",
    "/readyz",
    "/none",
    "/api/v1/links/none",
    "/api/v1/topics?limit=0",
)


def found() -> Iterator[tuple[str, str]]:
    links = [served.settings(*ends) for ends in ("AB", "CB", "BA", "BC")]
    with served.client(samples.of_driver, *links) as http:
        answers = {}
        for path in _PATHS:
            answer = http.get(path)
            answers[path] = [answer.status_code, answer.json()]
    answers["/api/v1/overview"][1]["version"] = ""
    yield "api.json", json.dumps(answers, indent=1)
    snapshot = samples.of_driver()
    scraped = text(snapshot).decode().splitlines()
    yield (
        "metrics.txt",
        "\n".join(
            each for each in scraped if not re.match(r"# HELP|.*\b(process_|causeway_info)", each)
        ),
    )
    yield "live.txt", _text(live(snapshot, 100, 160))
    links_ = samples.of_clusters()
    yield "status.json", json.dumps(as_json(links_), indent=1)
    yield (
        "topics.json",
        json.dumps(
            [listing.topic_json(one) for each in links_ for one in listing.topic_lines(each)],
            indent=1,
        ),
    )
    looked = wait.judge(links_[:2], wait.Want(), samples.NOW_MS)
    yield (
        "wait.json",
        json.dumps(wait.as_json(wait.Waited(code=11, last=looked, waited_s=1.0)), indent=1),
    )
    chosen = [
        MirrorDirective(scope=Scope(name), who="anna", at=1)
        for name in ("orders", "paid", "odd", "none")
    ]
    directives = LinkDirectives({each.key: each for each in (*chosen, samples.PAUSE)})
    yield (
        "geo.json",
        json.dumps(
            [
                destination_status.Destination(
                    name="B",
                    link=served.settings(),
                    driver=each.driver,
                    topics=destination_status.chosen_topics(served.settings(), directives, each),
                ).as_json()
                for each in links_
            ],
            indent=1,
        ),
    )


def _text(shown: Any) -> str:
    console = Console(width=160, record=True, file=StringIO())
    console.print(shown)
    return console.export_text()


@pytest.mark.parametrize("name", [each.name for each in sorted(_GOLDEN.iterdir())])
def test_what_users_see_is_as_recorded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dict(found())[name] == (_GOLDEN / name).read_text()


if __name__ == "__main__":
    for name, content in found():
        (_GOLDEN / name).write_text(content)
