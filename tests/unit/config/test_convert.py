"""Property file to causeway.yaml and back: the same settings, whatever stands in a file."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import javaproperties
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from causeway.config import Settings
from causeway.errors import ConfigError
from causeway.formats import convert, load, read_properties
from causeway.formats.causeway_yaml import shape
from causeway.formats.causeway_yaml.shape import Leaf, Section
from tests.harness.config_files import ENVIRONMENT
from tests.harness.examples import examples
from tests.harness.pems import make_pem

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(ROOT.glob("examples/**/*.properties"))
ENVIRONMENT |= dict.fromkeys(("PEPPER", "CARD_KEY", "NAME_KEY"), "ab" * 32)
HEAD = {"clusters": "A, B, C", **{f"{alias}.bootstrap.servers": f"{alias}:1" for alias in "ABC"}}

QUICKLY = (Phase.explicit, Phase.generate)  # to shrink such files takes minutes
KAFKAS = "org.apache.kafka.connect.mirror."
PROVIDERS = {
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}
TEXTS = {
    "replication.policy.class": ["DefaultReplicationPolicy", KAFKAS + "DefaultReplicationPolicy"],
    "replication.policy.separator": ["_", "-"],
    "source.cluster.alias": ["eu", "${env:WORD}"],
    "causeway.principal": ["User:me"],
    "causeway.paused": ["records", "heartbeats, checkpoints"],
    "causeway.metrics.host": ["0.0.0.0", "${env:WORD}"],
    "causeway.http.host": ["localhost", "::1"],
    "causeway.http.token": ["0123456789abcdef", "fedcba9876543210"],
    "sql": ["SELECT 1", "SELECT 'ä: #' -- all\n  FROM records\n", " SELECT\n\tkey", "yes", "\\"],
    "rules": ["drop $.a", "drop $.a\ndrop $.b", "drop $.a\n\n drop $.b"],
    "causeway.rename": ["o\\.(.{1,3}) => s.$1", "a => b; c => d", "a => b\n(c|d) => e$1", ""],
    "value.schema": ["id BIGINT, name STRING"],
}


_NUMBERS = (1, 7, 59, 60, 90, 1000, 3600, 5000, 600_000, 1 << 20, 25 << 20, 86_400_000)


def values(leaf: Leaf) -> st.SearchStrategy[str]:
    """Texts that the key may have, or nearly."""
    if leaf.key in TEXTS:
        return st.sampled_from(TEXTS[leaf.key])
    if leaf.kind == "list":
        return st.sampled_from(["a", "a, b.*", "a,b\\..*,", "", "x ,(?i)y", "${env:WORD}, z"])
    schemas = leaf.schema.get("anyOf", [leaf.schema])
    if any(each.get("type") == "boolean" for each in schemas):
        return st.sampled_from(["true", "false", "TRUE"])
    for each in schemas:
        if each.get("type") == "integer":
            low, high = each["minimum"], min(each["maximum"], 1 << 40)
            numbers = st.sampled_from([n for n in _NUMBERS if low <= n <= high])
            more = [str(e["const"]) for e in schemas if "const" in e]
            outside = ["${env:NUMBER}"] if low <= 7 <= high else []
            return numbers.map(str) | st.sampled_from([*more, *outside, str(low)])
    enum = leaf.schema.get("enum")
    return st.sampled_from(enum) if enum else st.sampled_from(["x", "${env:WORD}", "", "010"])


def keys(prefix: str, section: Section) -> st.SearchStrategy[dict[str, str]]:
    """Some of a section's keys, with values; logins are made of others."""
    of = {prefix + leaf.key: values(leaf) for _, leaf in section.leaves() if "/" not in leaf.key}
    for role, names in {
        "consumer": ("fetch.max.bytes", "client.id"),
        "producer": ("client.id", "request.timeout.ms"),
        "admin": ("client.id", "request.timeout.ms"),
    }.items():
        if section is shape.cluster():
            of |= {f"{prefix}{role}.{name}": st.sampled_from(["7", "8"]) for name in names}
    some = st.fixed_dictionaries({}, optional=of)
    return some.map(lambda found: {k: t for k, t in found.items() if not _HARD.search(k)})


# What needs others beside it: tests of their own have these.
_HARD = re.compile("ssl[.]|[.]tls[.]|sasl|bootstrap|security|read.only|cluster.alias")


def transform(prefix: str) -> st.SearchStrategy[dict[str, str]]:
    """A whole one."""
    leaves = {leaf.key: leaf for _, leaf in shape.transform().leaves()}
    text = st.sampled_from(["sql", "rules"]).flatmap(
        lambda key: st.fixed_dictionaries({prefix + key: values(leaves[key])})
    )
    others = {
        prefix + "value.format": st.just("json"),
        prefix + "value.schema": st.just("id BIGINT, name STRING"),
        prefix + "lanes": st.sampled_from(["1", "4"]),
        prefix + "on.error": st.just("dead-letter"),
        prefix + "secret.KEY": st.just("${env:WORD}"),
    }
    topics = {prefix + "topics": st.sampled_from(["a, b.*", "x"])}
    rest = st.fixed_dictionaries(topics, optional=others)
    return st.tuples(text, rest).map(lambda pair: pair[0] | pair[1])


FILES = st.tuples(
    keys("", shape.defaults()),
    keys("A.", shape.cluster()),
    keys("A->B.", shape.link()),
    keys("B->C.", shape.link()),
    keys("", shape.run()),
    transform("causeway.transform.pii."),
    transform("A->B.causeway.transform.cards."),
    st.fixed_dictionaries(
        {},
        optional={
            "enabled": st.sampled_from(["true", "false"]),
            "C->B.causeway.transforms": st.sampled_from(["", "pii"]),
            "C->A.enabled": st.just("true"),
            "topics.blacklist": st.just("old.*"),
            "causeway.progress.interval.seconds": st.sampled_from(["5", "2.5"]),
            "spark.master": st.just("local[2]"),
            "A->B.sasl.unknown": st.just("x"),
            "no.such.key": st.just("x"),
        },
    ),
)


def written(directory: Path, entries: Mapping[str, str], name: str = "mm2.properties") -> Path:
    file = directory / name
    file.write_text(javaproperties.dumps(dict(entries), timestamp=False))
    return file


def judged(file: Path) -> Settings | None:
    """Its settings without what speaks of lines; None where it is refused."""
    try:
        found = load(file, environment=ENVIRONMENT)
    except ConfigError:
        return None
    links = tuple(
        replace(link, transforms=tuple(replace(each, place="") for each in link.transforms))
        for link in found.links
    )
    return replace(found, links=links, warnings=())


def other(file: Path, name: str) -> Path:
    found = file.parent / name
    found.write_text(convert(file).text)
    return found


def there_and_back(file: Path) -> None:
    wanted = judged(file)
    ours = other(file, "causeway.yaml")
    back = other(ours, "back.properties")

    assert judged(ours) == wanted
    assert judged(back) == wanted
    assert convert(back).text == ours.read_text()


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=QUICKLY,
    derandomize=True,
)
@given(FILES)
def test_settings_survive(parts: tuple[dict[str, str], ...]) -> None:
    listed = {"causeway.transforms": "pii", "A->B.causeway.transforms": "pii, cards"}
    entries = HEAD | listed | PROVIDERS | {"A->B.enabled": "true"}
    for part in parts:
        entries |= part
    with tempfile.TemporaryDirectory() as directory:
        there_and_back(written(Path(directory), entries))


ANY_KEY = st.sampled_from(
    [
        *("x", "A.x", "A.B.x", "A->B.x", "A->D.x", "A->B", "A.", "spark.x", "spark.spark.x", "a b"),
        *("topics", "A->B.topics", "A.topics", "A->B.enabled", "A->B.rules", "causeway.lanes"),
        *("A.consumer.x", "A->B.source.consumer.x", "A->B.consumer.x", "consumer.x", "A.sasl.x"),
        *("A.sasl.jaas.config", "A.sasl.mechanism", "A.ssl.cipher.suites", "A.client.id"),
        *("causeway.transform.x.sql", "causeway.transform.x.y", "A->B.causeway.transform..sql"),
        *("causeway.transforms", "A.causeway.transforms", "causeway.lease.ms", "name", "from"),
        *("A->B.causeway.transforms", "A->B.causeway.transform.x.rules", "A->B.from", "A->A.x"),
    ]
)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(
    max_examples=examples(50),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=QUICKLY,
    derandomize=True,
)
@given(st.dictionaries(ANY_KEY, ANY_TEXT))
@example({"causeway.lanes": "0010", "A->B.rules": "a\r\nb", "A->B.topics": "\x00,\x85"})
@example({"A->B.causeway.transforms": "x", "A->B.causeway.transform.x.rules": "~"})
def test_every_text_survives(entries: dict[str, str]) -> None:
    """Right or wrong, known or not."""
    with tempfile.TemporaryDirectory() as directory:
        file = written(Path(directory), HEAD | entries)
        before = {key: entry.value for key, entry in read_properties(file).entries.items()}
        back = other(other(file, "causeway.yaml"), "back.properties")
        after = {key: entry.value for key, entry in read_properties(back).entries.items()}

    implied = {"A->B.enabled", "A->A.enabled", "config.providers", "config.providers.env.class"}
    assert after.keys() - implied == before.keys() - implied
    for key, text in before.items():
        assert said_alike(text, after[key]), key


def said_alike(text: str, back: str) -> bool:
    """But for blanks in lists, and the case of truth values."""
    plain = [[item.strip() for item in each.split(",") if item.strip()] for each in (text, back)]
    return text == back or plain[0] == plain[1] or text.strip().lower() == back.lower()


@pytest.mark.parametrize(
    "word", ["plain", 'a"b', "a\\b", " a ", "ä#:=!", "${env:WORD}", "x${env:WORD}"]
)
def test_how_a_cluster_is_reached_survives(word: str, tmp_path: Path) -> None:
    """With each kind of login, and a password that each form has to write in its own way."""
    quoted = word.replace("\\", "\\\\").replace('"', '\\"')
    module = "org.apache.kafka.common.security.{}LoginModule required {};"
    login = f'username="me" password="{quoted}"'
    _, certificate = make_pem()
    entries = (
        HEAD
        | PROVIDERS
        | {
            "A->B.enabled": "true",
            "security.protocol": "SASL_SSL",
            "ssl.endpoint.identification.algorithm": "",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": certificate,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": module.format("scram.Scram", login),
            "A.sasl.mechanism": "PLAIN",
            "A.sasl.jaas.config": module.format("plain.Plain", login + ' more="x"'),
            "A.consumer.sasl.jaas.config": module.format("plain.Plain", login),
            "C.sasl.mechanism": "OAUTHBEARER",
            "C.sasl.oauthbearer.token.endpoint.url": "https://tokens",
            "C.sasl.oauthbearer.client.credentials.client.id": "me",
            "C.sasl.oauthbearer.client.credentials.client.secret": word,
            "C.sasl.jaas.config": module.format("oauthbearer.OAuthBearer", 'scope="x"'),
            "B->C.enabled": "true",
        }
    )
    file = written(tmp_path, entries)

    assert isinstance(judged(file), Settings)
    there_and_back(file)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
def test_every_example_survives(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / file.name
    for each in (file, *file.parent.glob("*.sql")):
        (tmp_path / each.name).write_bytes(each.read_bytes())

    assert isinstance(judged(copy), Settings)
    there_and_back(copy)
    assert "\nproperties:" not in convert(copy).text
    assert convert(copy).text.startswith("# ")


def test_it_is_written_to_be_read(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        r"""# Why there is this file.
#   With an example.

clusters = A, B
A.bootstrap.servers = a:1, a:2
A.security.protocol = SASL_SSL
A.sasl.mechanism = PLAIN
A.sasl.jaas.config = x.y.PlainLoginModule required username="me" password="it's";
A.consumer.client.id = one
A.producer.client.id = one
A.admin.client.id = one
A.consumer.fetch.max.bytes = 1000
B.bootstrap.servers = ${env:B}
config.providers = env
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
topics.blacklist = old
A->B.enabled = true
A->B.topics = orders, payments\\..*
A->B.sync.topic.acls.interval.seconds = 3600
A->B.causeway.transforms = pii
A->B.causeway.transform.pii.topics = customers
A->B.causeway.transform.pii.value.format = json
A->B.causeway.transform.pii.sql = \
    SELECT to_json(value) AS value\n\
    FROM records
A->B.consumer.client.id = late
causeway.lane.buffer.bytes = 33554432
spark.executor.memory = 2g
"""
    )
    found = convert(file)

    assert (
        found.text
        == r"""# Why there is this file.
# With an example.
clusters:
  A:
    bootstrap: ['a:1', 'a:2']
    security:
      protocol: SASL_SSL
      sasl:
        mechanism: PLAIN
        username: me
        password: it's
    client:
      client.id: one
    consumer:
      fetch.max.bytes: 1000
  B:
    bootstrap: ${env:B}

defaults:
  topics-exclude: [old]

links:
  - from: A
    to: B
    topics: [orders, payments\..*]
    sync:
      acls:
        interval: 1h
    transforms:
      - name: pii
        topics: [customers]
        sql: |-
          SELECT to_json(value) AS value
          FROM records
        value:
          format: json

run:
  lane-buffer: 32MiB

spark:
  executor.memory: 2g

properties:
  A->B.consumer.client.id: late
"""
    )
    assert found.carried == ("A->B.consumer.client.id",)


def test_a_secret_from_outside_stays_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORD", "letmein")
    text = 'x.PlainLoginModule required username="me" password="${env:WORD}";'
    found = convert(written(tmp_path, HEAD | {"A.sasl.jaas.config": text})).text

    assert "letmein" not in found
    assert "${env:WORD}" in found


def test_aliases_from_outside_the_file_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path, {"clusters": "${env:CLUSTERS}", "x.bootstrap.servers": "x:1"})

    with pytest.raises(ConfigError, match="the aliases come from outside the file"):
        convert(file)


def every_leaf() -> list[tuple[Any, Leaf]]:
    sections = (shape.cluster(), shape.link(), shape.defaults(), shape.run(), shape.transform())
    return [leaf for section in sections for leaf in section.leaves()]


def test_each_key_has_one_place() -> None:
    for section in (shape.cluster(), shape.link(), shape.run(), shape.transform()):
        leaves = list(section.leaves())
        assert len({way for way, _ in leaves}) == len(leaves)
        assert len({leaf.key for _, leaf in leaves}) == len(leaves)
    assert all(leaf.meaning for _, leaf in every_leaf())
