"""What the query of rules holds, and which rules and keys are refused before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from causeway.config import Secret, TransformSettings
from causeway.errors import ConfigError
from causeway.transform.rules import to_sql

KEY = "00112233445566778899aabbccddeeff"
PEPPER = "a pepper of some length"


def settings(rules: str, **more: Any) -> TransformSettings:
    secrets = more.pop("secrets", {"k": KEY, "pepper": PEPPER})
    return TransformSettings(
        name="pii",
        topics=(),
        rules=rules,
        place="pii.rules (line 3)",
        secrets={name: Secret(value) for name, value in secrets.items()},
        **{"value_format": "json", **more},
    )


def test_only_what_a_rule_names_is_projected() -> None:
    query = to_sql(settings("drop headers.h"))
    projected = query.rsplit("|> SELECT", 1)[1]
    assert " AS headers" in projected
    assert " AS value" not in projected
    assert " AS key" not in projected
    assert "_seen" in projected
    assert "_reason" in projected


def test_no_secret_is_in_the_query() -> None:
    rules = "encrypt value.$.a with k; hash value.$.b with pepper; tokenise value.$.c with k"
    query = to_sql(settings(rules))
    assert KEY not in query
    assert PEPPER not in query
    assert "unhex(secrets.k)" in query


def test_a_key_in_base64_is_decoded_so() -> None:
    query = to_sql(settings("encrypt value.$.a with k", secrets={"k": "AAECAwQFBgcICQoLDA0ODw=="}))
    assert "unbase64(secrets.k)" in query


@pytest.mark.parametrize(
    ("rules", "more", "cause"),
    [
        ("mask value.$.a", {"value_format": "binary"}, "value.format = json"),
        ("mask value.$.a", {"value_format": "string"}, "value.format = json"),
        ("mask key.$.a", {}, "key.format = json"),
        ("mask key", {}, "key.format = string"),
        ("drop value", {}, "tombstone"),
        ("hash key with k required", {}, "`required` is for fields and headers"),
        ("mask headers.* optional", {}, "`optional` is for fields and headers"),
        ("encrypt value with k; mask value.$.a", {}, "rule 2 (mask value.$.a), character 23"),
        ("drop record where value.$.a[*] is 1", {}, "no wildcards"),
        ("hash value.$.a with nobody", {}, "there is no secret nobody"),
        ("hash value.$.a with k", {"secrets": {"k": "short"}}, "too short for a hash"),
        ("encrypt value.$.a with k", {"secrets": {"k": "abcd"}}, "it has 2 bytes"),
        ("tokenise value.$.a with k", {"secrets": {"k": "no key!"}}, "neither hex nor base64"),
    ],
)
def test_what_does_not_fit_is_refused(rules: str, more: dict[str, Any], cause: str) -> None:
    with pytest.raises(ConfigError) as caught:
        to_sql(settings(rules, **more))
    assert cause in str(caught.value)
    assert "pii.rules (line 3)" in str(caught.value)
    for secret in more.get("secrets", {}).values():
        assert f"'{secret}'" not in str(caught.value)
