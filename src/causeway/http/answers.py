"""What all routes answer in: JSON, and errors in Connect's form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError
from starlette.responses import JSONResponse, Response


class AnyJSONResponse(JSONResponse):
    """Of texts that may hold what is no UTF-8, such as the name of a file in a reason."""

    def render(self, content: Any) -> bytes:
        return _dump(content)


def answer(value: BaseModel, status: int = 200) -> Response:
    """As it is declared, with null for what is unknown."""
    return Response(_json(value), status, media_type="application/json")


def _json(value: BaseModel) -> str:
    try:
        return value.model_dump_json()
    except PydanticSerializationError:
        return _dump(value.model_dump()).decode()


def _dump(content: Any) -> bytes:
    """What is no UTF-8 comes out as `?`."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(errors="replace")


def paged(
    items: Sequence[BaseModel], total: int, offset: int, limit: int, taken_at_ms: int
) -> Response:
    """A `shapes.Page` of `items`."""
    body = (
        f'{{"items":[{",".join(map(_json, items))}],"total":{total},'
        f'"offset":{offset},"limit":{limit},"taken_at_ms":{taken_at_ms}}}'
    )
    return Response(body, media_type="application/json")


def refused(status: int, message: str) -> Response:
    """`{"error_code": 404, "message": "..."}`."""
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return AnyJSONResponse({"error_code": status, "message": message}, status, headers)
