"""What all routes answer in: JSON, and errors in Connect's form."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel
from starlette.responses import JSONResponse, Response


def answer(value: BaseModel, status: int = 200) -> Response:
    """As it is declared, with null for what is unknown."""
    return Response(value.model_dump_json(), status, media_type="application/json")


def paged(
    items: Sequence[BaseModel], total: int, offset: int, limit: int, taken_at_ms: int
) -> Response:
    """A `shapes.Page` of `items`."""
    body = (
        f'{{"items":[{",".join(one.model_dump_json() for one in items)}],"total":{total},'
        f'"offset":{offset},"limit":{limit},"taken_at_ms":{taken_at_ms}}}'
    )
    return Response(body, media_type="application/json")


def refused(status: int, message: str) -> Response:
    """`{"error_code": 404, "message": "..."}`."""
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error_code": status, "message": message}, status, headers)
