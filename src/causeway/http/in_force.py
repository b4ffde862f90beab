"""The settings in force in a run, without secrets, for `causeway plan --running`."""

from __future__ import annotations

import logging
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from causeway.config import SALT_BYTES, Settings, described, equal, rows_of
from causeway.http import shapes
from causeway.http.answers import Asking, answer
from causeway.http.api import VERSION

_log = logging.getLogger("causeway.http")
_MOST: Final = 500  # secrets of a request


class SecretDigests(BaseModel):
    """`digests`: scrypt of secrets, in hex, by the id of the setting."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    salt: str = Field(pattern=f"^[0-9a-f]{{{2 * SALT_BYTES}}}$", description="In hex.")
    digests: dict[str, str] = Field(max_length=_MOST)


def router(in_force: Settings) -> APIRouter:
    api = APIRouter(prefix="/api/v1/settings", tags=["run"])
    # In a thread, because 1,000 flows take a second. One at a time, because a digest uses a core
    # for a moment, and each request may be a guess.
    asking = Asking("settings", at_once=1)

    @api.get("", **shapes.answers(shapes.SettingsInForce))
    async def settings() -> Response:
        """All settings in force, of the process, of clusters and of links, without secrets."""
        found = await asking.ask(lambda: described(rows_of(in_force)), {})
        return answer(shapes.SettingsInForce(version=VERSION, settings=found))

    @api.post("/secrets", **shapes.answers(shapes.EqualSecrets))
    async def secrets(request: Request, theirs: SecretDigests) -> Response:
        """Which hidden settings are the same as yours. No answer has a secret or a digest."""
        client = request.client.host if request.client else "?"
        _log.info("asked for", extra={"action": "compare secrets", "who": client})
        salt = bytes.fromhex(theirs.salt)
        found = await asking.ask(lambda: equal(rows_of(in_force), salt, theirs.digests), {})
        return answer(shapes.EqualSecrets(equal=found))

    return api
