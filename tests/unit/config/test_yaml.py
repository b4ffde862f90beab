"""causeway.yaml to Settings: as from a property file; all that is wrong is told with its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from causeway.config import LinkSettings, Secret, Settings
from causeway.errors import ConfigError
from causeway.formats import load

HEAD = """\
clusters:
  A: {bootstrap: ["a:1", "a:2"]}
  B: {bootstrap: "b:1"}
"""
LINK = """\
links:
  - from: A
    to: B
"""
ENVIRONMENT = {"WORD": "letmein", "SERVERS": "b:1"}


def settings(tmp_path: Path, text: str) -> Settings:
    (tmp_path / "causeway.yaml").write_text(text)
    return load(tmp_path / "causeway.yaml", environment=ENVIRONMENT)


def link(tmp_path: Path, text: str) -> LinkSettings:
    """Of the link whose further lines are `text`."""
    more = "".join(f"    {line}\n" for line in text.splitlines())
    return settings(tmp_path, HEAD + LINK + more).links[0]


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, text)
    assert "letmein" not in str(caught.value)
    lines = str(caught.value).removeprefix(f"use {tmp_path / 'causeway.yaml'}: ").splitlines()
    return [line.strip() for line in lines if not line.endswith(" problems")]


def test_the_settings_are_those_of_a_property_file(tmp_path: Path) -> None:
    plain = tmp_path / "mm2.properties"
    plain.write_text(
        """
clusters = A, B
A.bootstrap.servers = a:1, a:2
A.security.protocol = SASL_PLAINTEXT
A.sasl.mechanism = PLAIN
A.sasl.jaas.config = x.PlainLoginModule required username="u" password="${env:WORD}";
A.consumer.client.id = me
A.producer.client.id = me
A.admin.client.id = me
B.bootstrap.servers = ${env:SERVERS}
replication.factor = 1
A->B.enabled = true
A->B.topics = orders, payments\\\\..*
A->B.groups = x
A->B.groups.exclude = y, z
A->B.sync.group.offsets.enabled = true
A->B.sync.group.offsets.interval.seconds = 10
A->B.replication.policy.class = IdentityReplicationPolicy
A->B.source.consumer.fetch.max.bytes = 1000
causeway.lane.buffer.bytes = 33554432
causeway.lease.ms = 5000
causeway.deleted.topics.retention.ms = -1
spark.master = local[2]
"""
    )
    found = settings(
        tmp_path,
        r"""
clusters:
  A:
    bootstrap: ["a:1", "a:2"]
    security:
      protocol: SASL_PLAINTEXT
      sasl: {mechanism: PLAIN, username: u, password: "${env:WORD}"}
    client: {client.id: me}
  B: {bootstrap: "${env:SERVERS}"}
defaults:
  replication-factor: 1
links:
  - from: A
    to: B
    topics: [orders, 'payments\..*']
    groups: x
    groups-exclude: [y, z]
    sync: {group-offsets: {enabled: true, interval: 10s}}
    naming: {policy: identity}
    source: {consumer: {fetch.max.bytes: 1000}}
run:
  lane-buffer: 32MiB
  lease: 5s
  deleted-topics-retention: forever
spark:
  master: local[2]
""",
    )

    assert found == load(plain, environment=ENVIRONMENT)
    assert found.warnings == ()


def test_a_listed_link_runs_unless_it_says_otherwise(tmp_path: Path) -> None:
    text = HEAD + LINK + "  - {from: B, to: A, enabled: false}\n"

    assert [each.name for each in settings(tmp_path, text).links] == ["A->B"]


def test_text_is_what_was_written(tmp_path: Path) -> None:
    """YAML 1.1 would make a number, a truth value and a time of these."""
    found = settings(
        tmp_path, HEAD + LINK + "spark: {a: 0123, b: yes, c: 1:30, d: 1e3, spark.e: ''}\n"
    )

    values = {"a": "0123", "b": "yes", "c": "1:30", "d": "1e3", "e": ""}
    assert found.spark == {f"spark.{name}": value for name, value in values.items()}


def test_parts_can_be_shared(tmp_path: Path) -> None:
    text = f"""{HEAD}{LINK}    sync: &sync
      acls: {{enabled: false}}
  - from: B
    to: A
    sync:
      <<: *sync
      group-offsets: {{enabled: true}}
"""
    there = settings(tmp_path, text).links[1].control

    assert (there.sync_topic_acls_enabled, there.sync_group_offsets_enabled) == (False, True)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("2h", 7200), ("1d", 86400), ("3000ms", 3)]
)
def test_durations(tmp_path: Path, text: str, seconds: float) -> None:
    found = link(tmp_path, f"refresh: {{topics: {{interval: {text}}}}}")

    assert found.refresh_topics_interval_s == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("2097152", 2097152), ("2 MiB", 2 << 20), ("3MB", 3_000_000), ("1GiB", 1 << 30)],
)
def test_sizes(tmp_path: Path, text: str, size: int) -> None:
    found = settings(tmp_path, f"{HEAD}{LINK}run: {{lane-buffer: {text}}}\n")

    assert found.run.lane_buffer_bytes == size


def test_transforms_in_their_order_named_or_in_place(tmp_path: Path) -> None:
    text = f"""{HEAD}{LINK}    transforms:
      - name: pii
        topics: [customers]
        value: {{format: json}}
        sql: |
          SELECT value -- all of it
            FROM records
      - cards
transforms:
  cards:
    topics: [cards, 'old\\.cards']
    rules:
      - drop $.pin
      - drop $.cvc
    secrets: {{KEY: "${{env:WORD}}"}}
"""
    pii, cards = settings(tmp_path, text).links[0].transforms

    assert pii.sql == "SELECT value -- all of it\n  FROM records\n"
    assert (pii.name, pii.value_format) == ("pii", "json")
    assert pii.place == "A->B.transforms.pii.sql (line 11, column 14)"
    assert cards.rules == "drop $.pin\ndrop $.cvc"
    assert cards.secrets["KEY"].reveal() == "letmein"
    assert [pattern.matches("old.cards") for pattern in cards.topics] == [False, True]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "cluster: {}\n",
            "cluster (line 1, column 1) is unknown: did you mean clusters?",
        ),
        (
            f"{HEAD}{LINK}    topics-exlude: [x]\n",
            "A->B.topics-exlude (line 7, column 5) is unknown: did you mean topics-exclude?",
        ),
        (
            f"{HEAD}{LINK}    sync.topic.acls.enabled: false\n",
            "A->B.sync.topic.acls.enabled (line 7, column 5) is unknown:"
            " did you mean sync.acls.enabled?",
        ),
        (
            f"{HEAD}{LINK}    sync: {{acls: {{enabled: yes}}}}\n",
            "A->B.sync.acls.enabled (line 7, column 28) must be true or false, not 'yes'",
        ),
        (
            f"{HEAD}{LINK}    refresh: {{topics: {{interval: 10}}}}\n",
            "A->B.refresh.topics.interval (line 7, column 34) must be a duration with its unit,"
            " such as 10s, 5m or 2h",
        ),
        (
            f"{HEAD}{LINK}    refresh: {{topics: {{interval: 10ms}}}}\n",
            "A->B.refresh.topics.interval (line 7, column 34) must be a duration of whole seconds,"
            " such as 10s",
        ),
        (
            f"{HEAD}{LINK}    topics: ['a{{1,2}}']\n",
            "A->B.topics (line 7, column 13) must be a list of items without commas and not empty:"
            " a comma would end a pattern",
        ),
        (
            f"{HEAD}{LINK}    topics:\n",
            "A->B.topics (line 7, column 12) has no value: write one, or leave it out",
        ),
        (
            f"{HEAD}{LINK}    topics: [['a']]\n",
            "A->B.topics (line 7, column 13) must be a list of texts",
        ),
        (
            f"{HEAD}{LINK}    delivery: [x]\n",
            "A->B.delivery (line 7, column 15) must be one value",
        ),
        (
            f"{HEAD}{LINK}    sync: yes\n",
            "A->B.sync (line 7, column 11) must be a map of keys and values",
        ),
        (
            f"{HEAD}links:\n  - from: A\n    to: C\n",
            "link 1, to (line 6, column 9): 'C' is none of the clusters, which are A, B",
        ),
        (
            f"{HEAD}links:\n  - from: A\n",
            "link 1 (line 5, column 5) has no to: name a cluster",
        ),
        (
            f"{HEAD}links:\n  - {{from: A, to: A}}\n",
            "link 1 (line 5, column 5): from and to are the same",
        ),
        (
            f"{HEAD}{LINK}  - {{from: A, to: B}}\n",
            "A->B (line 7, column 5): line 5 has that link already",
        ),
        (f"{HEAD}", "it names no links: write links: with from: and to: of each"),
        (f"{HEAD}links: []\n", "it names no links: write links: with from: and to: of each"),
        (LINK, "it names no clusters: write clusters: with an alias of each"),
        (
            f"{HEAD}  C: {{}}\n{LINK}",
            "clusters.C (line 4, column 3) has no bootstrap: write bootstrap: [host:port]",
        ),
        (
            f"{HEAD}{LINK}    to: A\n",
            "line 7, column 5: line 6 has the same key already",
        ),
        (
            f"{HEAD}{LINK}    topics: !!python/name:os.system x\n",
            "line 7, column 13: tags (!...) have no meaning here",
        ),
        (
            f"{HEAD}{LINK}    transforms: [{{sql: SELECT 1}}]\n",
            "A->B.transforms (line 7, column 18): a transform without a name",
        ),
        (
            f"{HEAD}{LINK}    transforms: [x, {{name: x}}]\n",
            "A->B.transforms.x (line 7, column 28) is in the list already",
        ),
        (
            f"{HEAD}{LINK}    transforms: [a.b]\n",
            "A->B.transforms (line 7, column 18): a name is made of letters, digits, '_' and '-'",
        ),
        (
            f"{HEAD}{LINK}properties: {{A->B.enabled: true}}\n",
            "properties.A->B.enabled (line 7, column 28) and A->B (line 5, column 5) say the same"
            " twice",
        ),
    ],
)
def test_what_is_wrong(tmp_path: Path, text: str, told: str) -> None:
    assert told in problems(tmp_path, text)


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        f"{HEAD}{LINK}    topics: ['(']\n    delivery: twice\n    color: red\n"
        "run: {lease: soon, lanes: none}\n",
    )

    assert [line.split(" (")[0] for line in sorted(found)] == [
        "A->B.color",
        "A->B.delivery",
        "A->B.topics",
        "run.lanes",
        "run.lease",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: b: letmein\n", "line 1, column 5: mapping values are not allowed here"),
        ("a: *letmein\n", "line 1, column 4: found undefined alias ..."),
        ("a: 'letmein\n", "line 2, column 1: found unexpected end of stream"),
        (
            "- a\n",
            "it must be a map: causeway.yaml begins with clusters:, a resource with apiVersion:",
        ),
        ("", "the file is empty"),
        (
            "a: 1\n---\nb: 1\n",
            "a second document begins in line 3: a file holds one; write what is to be run to a"
            " file of its own",
        ),
    ],
)
def test_what_is_no_yaml(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "causeway.yaml"
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, text)

    assert str(caught.value) == f"read {file}: {told}"


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}{LINK}    letmein99: x\n",
        f"{HEAD}{LINK}    delivery: ${{env:WORD}}\n",
        f"{HEAD}{LINK}    replication-factor: ${{env:WORD}}\n",
        f"{HEAD}{LINK}    topics: '(${{env:WORD}}'\n",
        f"{HEAD}links: [{{from: '${{env:WORD}}', to: B}}]\n",
        "clusters:\n  A: {bootstrap: '${env:WORD}'}\n  B: {bootstrap: b}\n" + LINK,
        "clusters:\n  A: {bootstrap: a:1, security: {protocol: SSL, tls: {keystore:"
        " {key: letmein, type: PEM}}}}\n  B: {bootstrap: b:1}\n" + LINK,
        "clusters:\n  A: {bootstrap: a:1, security: {sasl: {username: u, password:"
        " letmein}}}\n  B: {bootstrap: b:1}\n" + LINK,
    ],
)
def test_no_message_holds_a_secret(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text)  # which looks for it


@pytest.mark.parametrize("word", ['a"b', "a\\b", "a\nb"])
def test_a_password_from_elsewhere_may_have_any_character(tmp_path: Path, word: str) -> None:
    text = (
        "clusters:\n  A: {bootstrap: a:1, security: {protocol: SASL_PLAINTEXT, sasl:"
        " {mechanism: PLAIN, username: u, password: '${env:WORD}'}}}\n  B: {bootstrap: b:1}\n"
    )
    (tmp_path / "causeway.yaml").write_text(text + LINK)
    found = load(tmp_path / "causeway.yaml", environment={"WORD": word})

    sasl = found.links[0].source.sasl
    assert sasl is not None
    assert (sasl.username, sasl.password) == ("u", Secret(word))


def test_what_has_no_effect_is_a_warning_with_its_place(tmp_path: Path) -> None:
    found = settings(tmp_path, f"{HEAD}{LINK}properties:\n  A.consumr.client.id: x\n")

    assert found.warnings == (
        "unknown keys: properties.A.consumr.client.id (line 8, column 24)"
        " (did you mean A.consumer.client.id?)",
    )
    assert replace(found, warnings=()) == settings(tmp_path, HEAD + LINK)


def test_rules_that_rename_topics_are_a_list(tmp_path: Path) -> None:
    text = LINK + "    naming:\n      rename:\n        - 'o(.{1,3}) => s.$1'\n        - a => b\n"
    (link,) = settings(tmp_path, HEAD + text).links
    assert [each.rule for each in link.policy.renames] == ["o(.{1,3}) => s.$1", "a => b"]
