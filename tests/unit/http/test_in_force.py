"""The settings in force over HTTP: complete, without secrets, and with their comparison."""

from __future__ import annotations

import re
from typing import Any

import pytest

from causeway.config import SALT_BYTES, RunSettings, Settings, digests, rows_of
from tests.builders.served import PASSWORD, TOKEN, client, settings

SALT = "ab" * SALT_BYTES
OURS = rows_of(Settings(links=(settings(),), run=RunSettings(), spark={}))
HIDDEN = "cluster A source.consumer A->B sasl.jaas.config"


def test_all_settings_without_secrets() -> None:
    with client(token=TOKEN) as api:
        answer = api.get("/api/v1/settings", headers={"authorization": f"Bearer {TOKEN}"})
    assert PASSWORD not in answer.text
    assert TOKEN not in answer.text
    found = {each["id"]: each for each in answer.json()["settings"]}
    assert found["flow A->B topics"]["value"] == "orders.*,payments"
    assert found["flow A->B causeway.offsets"]["as_start"]
    assert found["process causeway.lanes"]["restart"]
    assert found[HIDDEN]["hidden"]
    assert found[HIDDEN]["value"] is None


def test_no_settings_without_the_token() -> None:
    with client(token=TOKEN) as api:
        assert api.get("/api/v1/settings").status_code == 401
        assert api.post("/api/v1/settings/secrets", json={}).status_code == 401


def test_which_secrets_are_the_same() -> None:
    theirs = digests(OURS, bytes.fromhex(SALT))
    with client() as api:
        body: dict[str, Any] = {"salt": SALT, "digests": theirs}
        answer = api.post("/api/v1/settings/secrets", json=body)
        assert set(answer.json()["equal"]) == set(theirs)
        assert HIDDEN in theirs
        body["digests"] = dict.fromkeys(theirs, "0" * 32)
        assert api.post("/api/v1/settings/secrets", json=body).json() == {"equal": []}
        assert not [each for each in theirs.values() if re.search(each, answer.text)]


@pytest.mark.parametrize(
    "body",
    [
        {"salt": "short", "digests": {}},
        {"salt": SALT, "digests": {str(number): "" for number in range(501)}},
        {"salt": SALT},
        {"salt": SALT, "digests": {}, "more": 1},
    ],
)
def test_a_request_in_another_form_is_refused(body: dict[str, Any]) -> None:
    with client() as api:
        assert api.post("/api/v1/settings/secrets", json=body).status_code == 400
