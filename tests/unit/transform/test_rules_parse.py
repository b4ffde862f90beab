"""The language of rules: what is read, and what is told about what cannot be."""

from __future__ import annotations

import pytest

from causeway.errors import ConfigError
from causeway.transform.rules import ElementStep, FieldStep, RulePath, parse, rule_names
from causeway.transform.rules.model import (
    Drop,
    DropRecord,
    Encrypt,
    Generalise,
    Hash,
    Kind,
    Mask,
    Tokenise,
    Truncate,
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("drop value.$.a", Drop()),
        ("drop record where value.$.a is 'x;y'", DropRecord(values=("x;y",), negated=False)),
        (
            "drop record where value.$.a is not in ('it''s', 2, -1.5, true)",
            DropRecord(values=("it's", 2, -1.5, True), negated=True),
        ),
        ("drop record where value.$.a is null", DropRecord(values=None, negated=True)),
        ("drop record where value.$.a is not null", DropRecord(values=None, negated=False)),
        ("mask value.$.a", Mask()),
        ("mask value.$.a keep first 2 keep last 4 with '#'", Mask(first=2, last=4, char="#")),
        ("mask value.$.a keep domain only letters", Mask(domain=True, only="letters")),
        ("mask value.$.a only 'aeiou'", Mask(only="'aeiou")),
        ("hash value.$.a with k", Hash(key="k")),
        ("hash value.$.a with k as base64", Hash(key="k", form="base64")),
        ("tokenise value.$.a with k", Tokenise(key="k", alphabet="0123456789")),
        ("tokenize value.$.a as 'abc' with k", Tokenise(key="k", alphabet="abc")),
        ("encrypt value.$.a with k", Encrypt(key="k", id_in="field")),
        ("encrypt value.$.a with k id in header", Encrypt(key="k", id_in="header")),
        ("encrypt value with k", Encrypt(key="k", id_in="header")),
        ("generalise value.$.a to month", Generalise(unit="month")),
        ("generalize value.$.a to ranges of 10", Generalise(size=10)),
        (
            "generalise value.$.a to ranges of 10 as number",
            Generalise(size=10, as_number=True),
        ),
        ("truncate value.$.a to 20", Truncate(length=20)),
    ],
)
def test_each_kind(text: str, kind: Kind) -> None:
    (rule,) = parse(text)
    assert rule.kind == kind


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("value", RulePath("value")),
        ("key", RulePath("key")),
        ("key.$.id", RulePath("key", (FieldStep("id"),))),
        ("value.$.a-b.c_d", RulePath("value", (FieldStep("a-b"), FieldStep("c_d")))),
        ("value.$.a[*].b", RulePath("value", (FieldStep("a"), ElementStep(None), FieldStep("b")))),
        ("value.$[0].*", RulePath("value", (ElementStep(0), FieldStep(None)))),
        ("value.$['odd name; really']", RulePath("value", (FieldStep("odd name; really"),))),
        ('value.$["a.b"].ü', RulePath("value", (FieldStep("a.b"), FieldStep("ü")))),
        ("headers.trace-id", RulePath("headers", None, "trace-id")),
        ("headers['x.y'].$.a", RulePath("headers", (FieldStep("a"),), "x.y")),
        ("headers.*", RulePath("headers")),
    ],
)
def test_paths(text: str, path: RulePath) -> None:
    (rule,) = parse(f"mask {text} keep last 4")
    assert rule.path == path
    (again,) = parse(f"mask {path} keep last 4")
    assert again.path == path  # as messages and headers have it


@pytest.mark.parametrize(
    ("word", "required"), [("", None), ("required", True), ("optional", False)]
)
def test_a_rule_may_say_whether_its_path_is_required(word: str, required: bool | None) -> None:
    for rule in (
        "drop value.$.a",
        "drop record where value.$.a is in ('x', 'optional')",
        "mask value.$.a keep first 2",
        "hash headers.h with k as base64",
        "tokenise value.$.a as hex with k",
        "encrypt value.$.a with k id in header",
        "generalise value.$.a to ranges of 10 as number",
        "truncate value.$.a to 3",
    ):
        (found,) = parse(f"{rule} {word}")
        assert (found.required, found.kind) == (required, parse(rule)[0].kind)


def test_rules_end_at_semicolons_and_lines_and_have_names_in_order() -> None:
    text = "mask value.$.a;\n\n  hash value.$.b with k\ndrop headers.h ;"
    assert rule_names(text) == ("mask value.$.a", "hash value.$.b", "drop headers.h")
    assert [(rule.number, rule.position) for rule in parse(text)] == [(1, 1), (2, 20), (3, 42)]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "there is none"),
        (" ; \n", "there is none"),
        ("hide value.$.a", "rule 1, character 1: expected drop, mask, hash"),
        ("mask", "rule 1, character 5: expected a path"),
        ("mask valu.$.a", "rule 1, character 6: expected a path"),
        ("mask value.$", "rule 1, character 13: expected a field after $"),
        ("mask value.$.a..b", "rule 1, character 15: expected .name"),
        ("mask value.$.a[x]", "rule 1, character 15: expected .name"),
        ("mask headers", "rule 1, character 13: expected a header's name"),
        ("drop value.$.a; mask value.$.b keep 4", "rule 2, character 37: expected first, last or"),
        ("mask value.$.a keep last none", "rule 1, character 26: expected a whole number"),
        ("mask value.$.a keep last 0", "rule 1, character 26: expected a whole number"),
        ("mask value.$.a with '**'", "rule 1, character 21: expected one character"),
        ("mask value.$.a keep domain keep last 2", "expected either `keep domain`"),
        ("hash value.$.a", "rule 1, character 15: expected 'with'"),
        ("hash value.$.a with", "rule 1, character 20: expected the name of a secret"),
        ("hash value.$.a with a-b", "rule 1, character 21: expected the name of a secret"),
        ("hash value.$.a with k as sha1", "rule 1, character 26: expected hex or base64"),
        ("tokenise value.$.a as numbers with k", "rule 1, character 23: expected digits"),
        ("tokenise value.$.a as 'aa' with k", "none twice"),
        ("encrypt value with k id in footer", "rule 1, character 28: expected field or header"),
        ("generalise value.$.a to week", "rule 1, character 25: expected year, month"),
        ("truncate value.$.a 5", "rule 1, character 20: expected 'to'"),
        ("drop record where value.$.a in ('x')", "rule 1, character 29: expected 'is'"),
        ("drop record where value.$.a is x", "rule 1, character 32: expected a text in quotes"),
        (
            "drop value.$.a now",
            "rule 1, character 16: expected required, optional or the rule's end",
        ),
        ("drop value.$['a", "rule 1 has a quote that does not end"),
        ("; ".join(["drop value.$.a"] * 64), "there are 64"),
    ],
)
def test_a_syntax_error_is_reported_with_rule_and_character(text: str, cause: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "A->B.causeway.transform.pii.rules (line 7)")
    message = str(caught.value)
    assert cause in message
    assert "A->B.causeway.transform.pii.rules (line 7)" in message
