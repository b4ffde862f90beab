"""The application over a made-up run, as a client sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient

from causeway.config import (
    ClientSettings,
    HttpSettings,
    LinkSettings,
    RunSettings,
    SaslSettings,
    Secret,
    Settings,
)
from causeway.filters import compile_patterns
from causeway.http.actions import Actions
from causeway.http.app import main_app
from causeway.http.history import Events, History
from causeway.http.views import RunViews
from causeway.naming import ReplicationPolicy
from causeway.status import Look
from tests.builders.status import full

PASSWORD = "s3cr3t-of-a-login"
TOKEN = "0123456789abcdef"


def settings(source: str = "A", target: str = "B") -> LinkSettings:
    a = ClientSettings(
        alias=source,
        bootstrap=(("a.example", 9092), ("a2.example", 9092)),
        protocol="SASL_SSL",
        sasl=SaslSettings(mechanism="PLAIN", username="me", password=Secret(PASSWORD)),
    )
    b = ClientSettings(alias=target, bootstrap=(("b.example", 9092),))
    return LinkSettings(
        source=a,
        target=b,
        source_admin=a,
        target_admin=b,
        policy=ReplicationPolicy(source_alias=source),
        topics=compile_patterns("orders.*, payments"),
        topics_exclude=compile_patterns("__.*"),
        config_properties_exclude=(),
    )


@contextmanager
def client(
    look: Look | None = full,
    *links: LinkSettings,
    token: str | None = None,
    history: History | None = None,
    events: Events | None = None,
    **more: Any,
) -> Iterator[TestClient]:
    """`look` None: the run has not said how to look at it."""
    sight = RunViews()
    if look is not None:
        sight.take(look)
    http = HttpSettings(port=0, token=None if token is None else Secret(token))
    all_settings = Settings(links=links or (settings(),), run=RunSettings(http=http), spark={})
    actions = Actions(all_settings)
    app = main_app(
        sight,
        history or History(),
        events or Events(),
        all_settings,
        "127.0.0.1:8490",
        actions,
    )
    more = {"base_url": "http://127.0.0.1:8490", "raise_server_exceptions": False, **more}
    try:
        yield TestClient(app, follow_redirects=False, **more)
    finally:
        sight.views.close()
