"""`causeway.transforms` and `causeway.transform.NAME.*`, of MirrorMaker 2 and 1 files."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.config import Settings, TransformSettings
from causeway.errors import ConfigError
from causeway.filters import Verdict
from causeway.formats import load_mm1, load_mm2

BASE = """clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""  # four lines
PII = """A->B.causeway.transforms = pii
A->B.causeway.transform.pii.topics = customers, orders\\\\..*
A->B.causeway.transform.pii.sql = SELECT * FROM records
"""


def load(tmp_path: Path, text: str, **environment: str) -> Settings:
    path = tmp_path / "mm2.properties"
    path.write_text(BASE + text)
    return load_mm2(path, environment=environment)


def only(tmp_path: Path, text: str, **environment: str) -> TransformSettings:
    (transform,) = load(tmp_path, text, **environment).links[0].transforms
    return transform


def refused(tmp_path: Path, text: str, **environment: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, **environment)
    return str(caught.value)


def test_a_transform_and_its_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path, PII)
    (transform,) = settings.links[0].transforms
    assert (transform.name, transform.sql) == ("pii", "SELECT * FROM records")
    assert (transform.python, transform.rules, transform.kind) == (None, None, "sql")
    assert transform.place == "A->B.causeway.transform.pii.sql (line 7)"
    assert (transform.key_format, transform.value_format) == ("binary", "binary")
    assert transform.dead_letters is None
    assert transform.registry is None
    assert transform.lanes == 1
    assert settings.warnings == ()


def test_the_first_that_matches_a_topic_is_its_only_one(tmp_path: Path) -> None:
    text = PII.replace("= pii", "= pii, all") + (
        "A->B.causeway.transform.all.topics = .*\nA->B.causeway.transform.all.python = a.b:c.d\n"
    )
    (link,) = load(tmp_path, text).links
    found = [link.transform_of(topic) for topic in ("customers", "orders.x", "orders")]
    assert [each.name if each else None for each in found] == ["pii", "pii", "all"]


def test_what_is_plain_is_for_all_flows_and_a_flow_beats_it(tmp_path: Path) -> None:
    plain = PII.replace("A->B.", "") + "B->A.enabled = true\n"
    assert [len(link.transforms) for link in load(tmp_path, plain).links] == [1, 1]
    own = "A->B.causeway.transform.pii.sql = SELECT key FROM records\n"
    first, second = load(tmp_path, plain + own).links
    assert first.transforms[0].sql == "SELECT key FROM records"
    assert second.transforms[0].sql == "SELECT * FROM records"


def test_everything_can_be_said(tmp_path: Path) -> None:
    text = PII + (
        "A->B.causeway.transform.pii.value.format = JSON\n"
        "A->B.causeway.transform.pii.key.format = json\n"
        "A->B.causeway.transform.pii.value.schema = id BIGINT, tags ARRAY<STRING>\n"
        "A->B.causeway.transform.pii.key.schema = id BIGINT\n"
        "A->B.causeway.transform.pii.on.error = dead-letter\n"
        "A->B.causeway.transform.pii.lanes = 3\n"
        "A->B.causeway.transform.pii.registry.url = https://registry:8081/\n"
        "A->B.causeway.transform.pii.registry.username = ann\n"
        "A->B.causeway.transform.pii.registry.password = ${env:PASSWORD}\n"
        "A->B.causeway.transform.pii.secret.mail_key = ${env:KEY}\n"
    )
    settings = load(tmp_path, text, PASSWORD="hunter22", KEY="swordfish")
    (transform,) = settings.links[0].transforms
    assert (transform.value_format, transform.key_format) == ("json", "json")
    assert transform.value_schema == "id BIGINT, tags ARRAY<STRING>"
    assert transform.key_schema == "id BIGINT"
    assert transform.dead_letters == "__causeway.A.B.pii.dead-letters"
    assert transform.lanes == 3
    assert transform.registry is not None
    assert transform.registry.url == "https://registry:8081"
    assert transform.registry.username == "ann"
    assert transform.registry.password is not None
    assert transform.registry.password.reveal() == "hunter22"
    assert transform.secrets["mail_key"].reveal() == "swordfish"
    assert "swordfish" not in repr(settings)
    assert "hunter22" not in repr(settings)
    assert settings.warnings == ()


def test_rules_read_values_as_json(tmp_path: Path) -> None:
    transform = only(tmp_path, PII.replace(".sql", ".rules"))
    assert (transform.kind, transform.value_format, transform.key_format) == (
        "rules",
        "json",
        "binary",
    )


def test_a_text_in_a_file_is_named_from_the_property_file(tmp_path: Path) -> None:
    (tmp_path / "pii.sql").write_text("SELECT key -- as it is\nFROM records -- Zürich\n")
    text = PII.replace("pii.sql = SELECT * FROM records", "pii.sql.file = pii.sql")
    transform = only(tmp_path, text)
    assert transform.sql == "SELECT key -- as it is\nFROM records -- Zürich\n"
    assert transform.place.startswith("A->B.causeway.transform.pii.sql.file (line 7), ")
    assert transform.place.endswith("pii.sql")


def test_text_of_ours_is_utf_8_and_javas_escapes_hold(tmp_path: Path) -> None:
    query = "SELECT * FROM records WHERE topic = 'Zürich \\u20ac …'"
    transform = only(tmp_path, PII.replace("SELECT * FROM records", query))
    assert transform.sql == "SELECT * FROM records WHERE topic = 'Zürich € …'"


def test_lines_are_counted_as_editors_do(tmp_path: Path) -> None:
    """The second byte of 'Å' in UTF-8 is a line end to some, not to Java."""
    text = "# Åland\n" + PII.replace("SELECT *", "SELECT \\\n    key \\\n   ") + "x=1\n"
    settings = load(tmp_path, text)
    assert settings.links[0].transforms[0].place.endswith("(line 8)")
    assert settings.links[0].transforms[0].sql == "SELECT key FROM records"
    assert "line 11" in settings.warnings[0]


@pytest.mark.parametrize("sql", ["get_json_object(value, '$.a')", "'$' || '{' || '--'", "`a--b`"])
def test_what_looks_like_a_reference_or_a_comment_passes(tmp_path: Path, sql: str) -> None:
    assert (
        only(tmp_path, PII.replace("SELECT *", f"SELECT {sql}")).sql == f"SELECT {sql} FROM records"
    )


@pytest.mark.parametrize("kind", ["sql", "rules", "python"])
def test_nothing_from_outside_goes_into_a_text(tmp_path: Path, kind: str) -> None:
    """Set or not: the variable is not even looked at."""
    text = PII.replace("sql = SELECT *", f"{kind} = SELECT ${{env:KEY}}")
    for environment in ({}, {"KEY": "swordfish"}):
        told = refused(tmp_path, text, **environment)
        assert f"pii.{kind} (line 7): Spark's plans show a query to everyone" in told
        assert "causeway.transform.pii.secret.FIELD" in told
        assert "swordfish" not in told
        assert "not set" not in told


TOPICS = "A->B.causeway.transform.pii.topics = customers"
ONE_OF = "set exactly one of .sql, .sql.file, .python, .rules and .rules.file"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "A->B.causeway.transforms = pii\n",
            "A->B.causeway.transforms (line 5) names pii, and causeway.transform.pii.topics and"
            " .sql, .python or .rules are missing",
        ),
        (
            "A->B.causeway.transforms = pii\n" + TOPICS,
            f"A->B.causeway.transforms (line 5) names pii: {ONE_OF}, and none is set",
        ),
        (
            PII.replace(".topics", ".topcs"),
            "causeway.transform.pii.topics: it names no topics",
        ),
        (PII.replace("customers", "(customers"), "A->B.causeway.transform.pii.topics (line 6): "),
        (
            PII + "A->B.causeway.transform.pii.rules = hash value.a",
            "A->B.causeway.transform.pii.sql (line 7) and A->B.causeway.transform.pii.rules"
            f" (line 8): {ONE_OF}, not several",
        ),
        (
            PII.replace("transforms = pii", "transforms = ${env:HOME}"),
            "A->B.causeway.transforms (line 5): the environment variable HOME is not set",
        ),
        (
            PII.replace("transforms = pii", "transforms ="),
            "A->B.causeway.transform.pii.topics (line 6): A->B.causeway.transforms does not name"
            " pii",
        ),
        (
            PII + "causeway.transform.eu.sql = SELECT 1",
            "causeway.transform.eu.sql (line 8): causeway.transforms does not name eu",
        ),
        (
            "causeway.transfroms = pii\n",
            "causeway.transfroms (line 5): there is no such key; did you mean causeway.transforms?",
        ),
        (
            "A->B.causeway.trasform.pii.sql = SELECT 1\n",
            "A->B.causeway.trasform.pii.sql (line 5): there is no such key; did you mean"
            " causeway.transform?",
        ),
        (
            PII.replace("transforms = pii", "transforms = pii, p.i"),
            "A->B.causeway.transforms (line 5): 'p.i' must be made of letters, digits, '_' and '-'",
        ),
        (
            PII.replace("SELECT *", "SELECT * -- all"),
            "A->B.causeway.transform.pii.sql (line 7): a comment that begins with --",
        ),
        (
            PII.replace("sql = SELECT * FROM records", "python = my function"),
            "A->B.causeway.transform.pii.python (line 7): must be module:function, not 'my",
        ),
        (
            PII.replace("sql = SELECT * FROM records", "sql.file = absent.sql"),
            "absent.sql: there is no such file",
        ),
        (PII.replace("SELECT * FROM records", ""), "pii.sql (line 7): it is empty"),
        (
            PII + "A->B.causeway.transform.pii.value.format = xml",
            "A->B.causeway.transform.pii.value.format (line 8) must be 'json', 'avro',",
        ),
        (
            PII + "A->B.causeway.transform.pii.value.format = avro",
            "A->B.causeway.transform.pii.value.format (line 8): needs"
            " causeway.transform.pii.registry.url",
        ),
        (
            PII + "A->B.causeway.transform.pii.registry.username = ann",
            "A->B.causeway.transform.pii.registry.username (line 8): needs"
            " causeway.transform.pii.registry.url",
        ),
        (
            PII + "A->B.causeway.transform.pii.value.schema = a INT",
            "A->B.causeway.transform.pii.value.schema (line 8): has no meaning for"
            " value.format = binary",
        ),
        (
            PII.replace(".sql", ".rules")
            + "A->B.causeway.transform.pii.value.schema = a ARRAY<INT",
            "A->B.causeway.transform.pii.value.schema (line 8): is not a schema",
        ),
        (
            PII + "A->B.causeway.transform.pii.on.error = ignore",
            "A->B.causeway.transform.pii.on.error (line 8) must be 'stop' or 'dead-letter'",
        ),
        (
            PII + "A->B.causeway.transform.pii.dead.letter.topic = x",
            "A->B.causeway.transform.pii.dead.letter.topic (line 8): needs"
            " causeway.transform.pii.on.error = dead-letter",
        ),
        (
            PII + "A->B.causeway.transform.pii.secret.k = ${env:ABSENT}",
            "A->B.causeway.transform.pii.secret.k (line 8): the environment variable ABSENT is not"
            " set",
        ),
        (
            PII + "A->B.causeway.transform.pii.secret.k-1 = x",
            "A->B.causeway.transform.pii.secret.k-1 (line 8): the name of a secret is made of",
        ),
        (PII + "A->B.causeway.transform.pii.secret.k =", "secret.k (line 8): it is empty"),
        (
            PII
            + "A->B.causeway.transform.pii.secret.k = a\nA->B.causeway.transform.pii.secret.K = b",
            "A->B.causeway.transform.pii.secret.K (line 9): differs from another secret in the",
        ),
        (
            PII + "A->B.causeway.transform.pii.registry.url = https://ann:pw@host",
            "A->B.causeway.transform.pii.registry.url (line 8) must be an http(s) URL",
        ),
        (
            PII
            + "A->B.causeway.transform.pii.registry.url = https://host\n"
            + "A->B.causeway.transform.pii.registry.ssl.truststore.location = absent.jks",
            "A->B.causeway.transform.pii.registry.ssl.truststore.location (line 9): read absent",
        ),
        (
            PII + "causeway.delivery = at-least-once",
            "causeway.delivery (line 8): transforms are exactly-once only",
        ),
        (PII + "A->B.causeway.transform.pii.lanes = 0", "pii.lanes (line 8) must be a whole"),
    ],
)
def test_an_error_is_reported_with_its_key_and_line(tmp_path: Path, text: str, told: str) -> None:
    assert told in refused(tmp_path, text)


def test_settings_of_a_disabled_flow_prevent_no_start(tmp_path: Path) -> None:
    assert load(tmp_path, "B->A.causeway.transforms = x\n").links[0].transforms == ()
    assert load(tmp_path, "B->A.causeway.transform.x.sql = y\n").links[0].transforms == ()


def test_unknown_keys_are_warned_of(tmp_path: Path) -> None:
    (warning,) = load(
        tmp_path,
        PII
        + "A->B.causeway.transform.pii.on.eror = stop\nA.causeway.transform.pii.sql = x\n"
        + "causeway.transform.sql = SELECT\n".replace("sql", "pii"),
    ).warnings[:1]
    assert "without effect in this place: A.causeway.transform.pii.sql (line 9)" in warning
    (unknown,) = load(tmp_path, PII + "A->B.causeway.transform.pii.on.eror = stop\n").warnings
    assert unknown == (
        "unknown keys: A->B.causeway.transform.pii.on.eror (line 8) (did you mean"
        " A->B.causeway.transform.pii.on.error?)"
    )


def test_no_flow_mirrors_the_dead_letters_of_another(tmp_path: Path) -> None:
    text = PII.replace("A->B.causeway.transforms", "A->B.topics = .*\nA->B.causeway.transforms") + (
        "A->B.causeway.transform.pii.on.error = dead-letter\n"
        "A->B.causeway.transform.pii.dead.letter.topic = refused\n"
        "clusters = A, B, C\nC.bootstrap.servers = c:1\nA->C.enabled = true\n"
        "B->C.enabled = true\n"
    )
    decided = {link.name: link.decide_topic("refused") for link in load(tmp_path, text).links}
    assert decided["A->B"].verdict is Verdict.DEAD_LETTERS
    assert decided["A->C"].verdict is Verdict.DEAD_LETTERS
    assert decided["B->C"].mirrored


def test_dead_letters_of_a_name_of_ours_are_internal_to_everybody(tmp_path: Path) -> None:
    (link,) = load(tmp_path, "A->B.topics = .*\nA->B.topics.exclude =\n").links
    assert link.decide_topic("__causeway.X.Y.pii.dead-letters").verdict is Verdict.INTERNAL


def mirror_maker_1(tmp_path: Path, text: str) -> Settings:
    (tmp_path / "c").write_text("bootstrap.servers = a:1\ngroup.id = g\n")
    (tmp_path / "p").write_text("bootstrap.servers = b:1\n" + text)
    return load_mm1([tmp_path / "c"], tmp_path / "p", ".*", environment={})


def test_mirror_maker_1_has_them_in_the_producers_file(tmp_path: Path) -> None:
    text = PII.replace("A->B.", "") + "causeway.transform.pii.on.error = dead-letter\n"
    settings = mirror_maker_1(tmp_path, text)
    (transform,) = settings.links[0].transforms
    assert transform.name == "pii"
    assert transform.place == "causeway.transform.pii.sql (line 4)"
    assert transform.dead_letters == "__causeway.source-g.target.pii.dead-letters"
    assert not settings.links[0].decide_topic(transform.dead_letters).mirrored
    assert settings.warnings == ()
    with pytest.raises(ConfigError, match=r"causeway.transforms does not name pii"):
        mirror_maker_1(tmp_path, "causeway.transform.pii.sql = x\n")
