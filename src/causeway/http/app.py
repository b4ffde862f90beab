"""The HTTP application: all routes, behind the guard."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from causeway.config import RunSettings, Secret, Settings
from causeway.http import api, connect, geo, in_force, shapes
from causeway.http.actions import Actions
from causeway.http.actions import router as act_routes
from causeway.http.answers import answer, refused
from causeway.http.api import VERSION
from causeway.http.api_page import api_page
from causeway.http.guard import Guard
from causeway.http.history import Events, History
from causeway.http.translating import router as translate_routes
from causeway.http.views import NotBegunError, RunViews, SharedValue
from causeway.metrics import text as metrics_text
from causeway.status import Role, Snapshot

_FILES: Final = Path(__file__).parent / "page"
# Paths without data of the mirror, for callers without a token.
_OPEN: Final = ("/", "/healthz", "/readyz", "/page/", "/docs", "/openapi.json")
_NO_NAME: Final = (
    "this port does not have that name: use an address of this machine, or add the name to"
    " causeway.metrics.names"
)
# The driver gives a new look twice a second, but not while it drains, which takes at most 60 s.
_SILENT_S: Final = 120.0
_ABOUT: Final = (
    "The state of a mirror, as `causeway run` knows it. Errors have Kafka Connect's form: "
    "`error_code`, the "
    "HTTP status, and `message`."
)


def metrics_app(run: RunViews, settings: RunSettings) -> Guard:
    """Returns the server of `causeway.metrics.port`: /metrics and the probes, without a token, for
    calls by this machine's names and addresses."""
    app = _bare()
    _add_probes(app, run)
    _add_metrics(app, run)
    names = (*settings.metrics_names, socket.gethostname())
    return Guard(
        app, host=settings.metrics_host, tls=False, token=None, names=names, not_ours=_NO_NAME
    )


def main_app(
    run: RunViews,
    history: History,
    events: Events,
    settings: Settings,
    worker: str,
    actions: Actions,
) -> Guard:
    """Returns the whole application. `worker`: host and port, the name of a worker in Connect."""
    links, http = settings.links, settings.run.http
    app = _bare()
    app.include_router(api.router(run.views, history, events, links))
    _add_probes(app, run)
    _add_metrics(app, run)
    names = tuple(each.name for each in links)
    app.include_router(act_routes(actions, names))
    app.include_router(geo.router(run.views, links, actions))
    app.include_router(translate_routes(settings))
    app.include_router(in_force.router(settings))
    app.include_router(connect.router(run.views, links, worker, actions))

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return JSONResponse(_described(app))

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(api_page(_described(app)))

    @app.get("/", include_in_schema=False)
    async def root(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse("/page/")
        return JSONResponse(connect.server_info())

    app.mount("/page", StaticFiles(directory=_FILES, html=True))
    tls = http.certificate is not None
    return guarded(app, http.host, tls=tls, token=http.token)


def guarded(app: ASGIApp, host: str, *, tls: bool, token: Secret | None) -> Guard:
    return Guard(app, host=host, tls=tls, token=token, open_paths=_OPEN)


def _bare() -> FastAPI:
    app = FastAPI(
        title="Causeway",
        version=VERSION,
        description=_ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses={
            "4XX": {
                "description": "Why not.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            }
        },
    )
    app.add_exception_handler(HTTPException, _told)
    app.add_exception_handler(RequestValidationError, _misspelt)
    app.add_exception_handler(NotBegunError, _too_early)
    app.add_exception_handler(Exception, _surprised)
    return app


def _add_metrics(app: FastAPI, run: RunViews) -> None:
    def scrape() -> bytes:
        return metrics_text(run.look() if run.begun else None)

    # Prometheus asks about once a minute, and must get the present state.
    scrapes = SharedValue(scrape, name="scrapes", patience_s=0)

    @app.get("/metrics", tags=["probes"], response_class=Response)
    async def metrics() -> Response:
        """Metrics for Prometheus; see the page of metrics."""
        return Response(await scrapes.newest(), media_type=CONTENT_TYPE_LATEST)


def _add_probes(app: FastAPI, run: RunViews) -> None:
    @app.get("/healthz", tags=["probes"])
    async def healthz() -> Response:
        """200 while the driver lives; 503 if its main thread has been silent for 2 minutes."""
        silent_s = time.monotonic() - run.heard_at
        if silent_s > _SILENT_S:
            return answer({"status": "hanging", "silent_s": round(silent_s)}, 503)
        return answer({"status": "ok"})

    @app.get("/readyz", tags=["probes"])
    async def readyz() -> Response:
        """200 if each link is led by this process or another one, and no cluster has refused this
        process for 2 minutes; otherwise 503 with the reason."""
        reason = _not_ready((await run.views.newest()).snapshot)
        if reason is not None:
            return answer({"status": "not ready", "reason": reason}, 503)
        return answer({"status": "ready"})


def _not_ready(snapshot: Snapshot) -> str | None:
    if snapshot.draining:
        return "the run is draining"
    for link in snapshot.links:
        if link.role is Role.LEADING and not link.planned:
            return f"{link.name} reads its topics"
        if link.name in snapshot.refused:
            return f"{link.name}: a cluster has refused new connections for minutes, see the log"
        if link.role not in (Role.LEADING, Role.STANDBY):
            return f"{link.name} is {link.role}"
    leads = any(link.role is Role.LEADING and link.partitions for link in snapshot.links)
    return "no lane is connected" if leads and not snapshot.lanes else None


def _described(app: FastAPI) -> dict[str, Any]:
    """Answers refused parameters in the form of all errors, not in FastAPI's."""
    described = app.openapi()
    for methods in described["paths"].values():
        for operation in methods.values():
            operation["responses"].pop("422", None)
    schemas = described.setdefault("components", {}).setdefault("schemas", {})
    schemas |= shapes.components()
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return described


async def _told(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = error.detail
    if error.status_code in (404, 405) and message in ("Not Found", "Method Not Allowed"):
        message = f"HTTP {error.status_code} {message}"
    return refused(error.status_code, message)


async def _misspelt(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = [f"{each['loc'][:2][-1]}: {each['msg']}" for each in error.errors()]
    return refused(400, "; ".join(found))


async def _too_early(_: Request, __: Exception) -> Response:
    return refused(503, "the run has just started: its clusters have not answered yet")


async def _surprised(_: Request, error: Exception) -> Response:
    return refused(500, f"internal error: {type(error).__name__}")
