"""The application: all routes, behind the guard."""

from __future__ import annotations

import socket
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
from causeway.http import api, connect, geo, health, shapes
from causeway.http.actions import Actions
from causeway.http.actions import router as act_routes
from causeway.http.answer_cache import Remembered
from causeway.http.answers import refused
from causeway.http.api_page import api_page
from causeway.http.coalesced_cache import Paced
from causeway.http.events import Events
from causeway.http.guard import Guard
from causeway.http.history import Memory
from causeway.http.shaping import VERSION
from causeway.http.snapshot_source import NotYetError, Sight
from causeway.http.translating import Translating
from causeway.http.translating import router as translate_routes
from causeway.metrics.collector import text as metrics_text

_FILES: Final = Path(__file__).parent / "page"
# What tells nothing of the mirror, and must be there before a token can be asked for.
_OPEN: Final = ("/", "/healthz", "/readyz", "/page/", "/docs", "/openapi.json")
_NO_NAME: Final = (
    "this port does not have that name: use an address of this machine, or add the name to"
    " causeway.metrics.names"
)
_ABOUT: Final = (
    "What `causeway run` knows of its mirror. Errors have Kafka Connect's form: `error_code`, the "
    "HTTP status, and `message`."
)


def metrics_app(sight: Sight, run: RunSettings) -> Guard:
    """The server of `causeway.metrics.port`: /metrics and the probes, without a token, for calls by
    this machine's names and addresses."""
    app = _bare()
    app.include_router(health.router(sight.views, lambda: sight.heard_at))
    _add_metrics(app, sight)
    names = (*run.metrics_names, socket.gethostname())
    return Guard(app, host=run.metrics_host, tls=False, token=None, names=names, not_ours=_NO_NAME)


def main_app(
    sight: Sight,
    memory: Memory,
    events: Events,
    settings: Settings,
    worker: str,
    actions: Actions,
    translating: Translating | None = None,
    geo_doors: geo.GeoDoors | None = None,
) -> Guard:
    """Everything, behind the guard. `worker`: host and port, which Connect has for a name."""
    links, http = settings.links, settings.run.http
    app = _bare()
    app.include_router(api.router(sight.views, memory, events, links))
    app.include_router(health.router(sight.views, lambda: sight.heard_at))
    _add_metrics(app, sight)
    names = tuple(each.name for each in links)
    app.include_router(act_routes(actions, names))
    app.include_router(geo.router(sight.views, links, actions, geo_doors))
    app.include_router(translate_routes(translating or Translating(settings), names))
    app.include_router(connect.router(sight.views, links, worker, actions))

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
    return guarded(Remembered(app, sight.views), http.host, tls=tls, token=http.token)


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
        responses={"4XX": {"model": shapes.Error, "description": "Why not."}},
    )
    app.add_exception_handler(HTTPException, _told)
    app.add_exception_handler(RequestValidationError, _misspelt)
    app.add_exception_handler(NotYetError, _too_early)
    app.add_exception_handler(Exception, _surprised)
    return app


def _add_metrics(app: FastAPI, sight: Sight) -> None:
    def scrape() -> bytes:
        return metrics_text(sight.look() if sight.begun else None)

    # Who scrapes comes once a minute, and wants to know how things are by then.
    scrapes = Paced(scrape, name="scrapes", patience_s=0)

    @app.get("/metrics", tags=["probes"], response_class=Response)
    async def metrics() -> Response:
        """For Prometheus; see the page of metrics."""
        return Response(await scrapes.newest(), media_type=CONTENT_TYPE_LATEST)


def _described(app: FastAPI) -> dict[str, Any]:
    """Refused parameters are answered as all else that is refused, not in FastAPI's form."""
    described = app.openapi()
    for methods in described["paths"].values():
        for operation in methods.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        described.get("components", {}).get("schemas", {}).pop(name, None)
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
    return refused(503, "the run has just begun: its clusters have not answered yet")


async def _surprised(_: Request, error: Exception) -> Response:
    return refused(500, f"internal error: {type(error).__name__}")
