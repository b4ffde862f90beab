"""All that Spark shows on its pages of a run."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException

import psutil

from tests.harness.running import Running

_PAGES = ("jobs/", "stages/", "storage/", "environment/", "executors/", "SQL/")
_API = ("jobs", "stages?details=true", "sql?details=true&planDescription=true", "environment")


def spark_shows(run: Running) -> Iterator[tuple[str, str]]:
    """Each page of the JVM that `run` has started, and what its API answers, with their names."""
    ports = {
        connection.laddr.port
        for process in run.processes()
        if process.name() == "java"
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    base = next(base for port in ports if _is_page(base := f"http://127.0.0.1:{port}/"))
    for page in _PAGES:
        text = _get(base + page)
        yield page, text
        for link in sorted(set(re.findall(r'href="(/(?:SQL|jobs|stages)/[^"]+)"', text)))[:20]:
            yield link, _get(base[:-1] + link.replace("&amp;", "&"))
    (application,) = json.loads(_get(base + "api/v1/applications"))
    for name in _API:
        yield f"api {name}", _get(f"{base}api/v1/applications/{application['id']}/{name}")


def _is_page(base: str) -> bool:
    try:
        return "Spark" in _get(base + "jobs/")
    except (OSError, HTTPException):
        return False


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return bytes(answer.read()).decode()
