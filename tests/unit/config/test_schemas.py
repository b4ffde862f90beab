"""What a file says of schema registries."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.config import SchemaSettings
from causeway.errors import ConfigError
from causeway.formats import load, load_mm2

BASE = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""
REGISTRIES = """
A.causeway.registry.url = https://a:8081/
A.causeway.registry.username = ann
A.causeway.registry.password = hunter22
B.causeway.registry.url = http://b:8081
B.causeway.registry.token = b-token-of-some-length
"""


def read(directory: Path, text: str) -> SchemaSettings | None:
    path = directory / "mm2.properties"
    path.write_text(BASE + text)
    settings = load_mm2(path)
    assert settings.warnings == ()
    return settings.links[0].schemas


def refusal(directory: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(directory, text)
    return str(caught.value)


def test_nothing_of_schemas_by_default(tmp_path: Path) -> None:
    assert read(tmp_path, "") is None
    assert read(tmp_path, REGISTRIES) is None
    assert read(tmp_path, "causeway.schemas.subjects = (") is None


def test_both_registries_and_what_is_to_be_done(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        REGISTRIES
        + """
A->B.causeway.schemas = copy
A->B.causeway.schemas.interval.seconds = 5
A->B.causeway.schemas.subjects = com\\\\.shop\\\\..*, money
A->B.causeway.schemas.names = both
causeway.schemas.context = .A
""",
    )
    assert found is not None
    assert (found.mode, found.interval_s, found.names, found.context) == ("copy", 5, "both", "A")
    assert len(found.subjects) == 2
    source, target = found.source, found.target
    assert (source.url, source.username) == ("https://a:8081", "ann")
    assert source.password is not None
    assert source.password.reveal() == "hunter22"
    assert target.token is not None
    assert target.token.reveal() == "b-token-of-some-length"
    assert "hunter22" not in repr(found)
    assert "b-token" not in repr(found)


def test_translation_has_its_own_words(tmp_path: Path) -> None:
    text = REGISTRIES + "causeway.schemas = translate\ncauseway.schemas.parts = value\n"
    found = read(tmp_path, f"{text}causeway.schemas.unknown = pass\n")
    assert found is not None
    assert (found.mode, found.parts, found.unknown) == ("translate", ("value",), "pass")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("causeway.schemas = copy", "causeway.schemas (line 6) needs A.causeway.registry.url"),
        (
            "B.causeway.registry.username = ann",
            "B.causeway.registry.username (line 6) needs B.causeway.registry.url",
        ),
        (
            "A.causeway.registry.url = http://ann:hunter22@a",
            "A.causeway.registry.url (line 6) must be an http(s) URL without user and password",
        ),
        (
            "A.causeway.registry.url = http://a\nA.causeway.registry.password = hunter22",
            "A.causeway.registry.password (line 7) needs A.causeway.registry.username",
        ),
        (
            "A.causeway.registry.url = http://a\nB.causeway.registry.url = http://a/",
            "both clusters have the same registry",
        ),
        (
            REGISTRIES.replace("b:8081", "b:8081/contexts/.X") + "causeway.schemas.context = A",
            "the URL of the target's registry already names a context",
        ),
        (
            REGISTRIES + "causeway.schemas.context = a b",
            "a context is made of letters, digits",
        ),
        (
            REGISTRIES + "A.causeway.registry.token = 0123456789abcdef",
            "are two ways to log in: leave one out",
        ),
        (REGISTRIES + "causeway.schemas.unknown = perhaps", "causeway.schemas.unknown"),
    ],
)
def test_what_cannot_be_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    on = "" if "causeway.schemas =" in text else "\ncauseway.schemas = copy"
    told = refusal(tmp_path, text + on)
    assert said in told
    assert "hunter22" not in told


def test_keys_in_the_wrong_place_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(BASE + "causeway.registry.url = http://a\nA.causeway.registry.urll = x\n")
    (misplaced, unknown) = load_mm2(path).warnings
    assert "write it as CLUSTER.causeway.registry.url" in misplaced
    assert "did you mean A.causeway.registry.url?" in unknown


def test_the_same_in_yaml(tmp_path: Path) -> None:
    path = tmp_path / "causeway.yaml"
    path.write_text("""
clusters:
  A:
    bootstrap: a:9092
    registry: {url: "http://a:8081", username: ann, password: hunter22}
  B:
    bootstrap: b:9092
    registry: {url: "http://b:8081"}
links:
  - from: A
    to: B
    schemas: {mode: copy, interval: 10s, subjects: ["com[.].*"]}
""")
    found = load(path).links[0].schemas
    assert found is not None
    assert (found.mode, found.interval_s, len(found.subjects)) == ("copy", 10, 1)
    assert found.source.username == "ann"


def test_a_translation_is_a_step_of_the_records_way(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(BASE + REGISTRIES + "causeway.schemas = translate\n")
    (step,) = load_mm2(path).links[0].treatments
    assert f"each record is {step.text}".startswith("each record is written with the ids that")
    assert step.kind == "schema-ids"
    assert step.decides["target"] == "http://b:8081"
    assert "hunter22" not in f"{step!r} {step.decides}"
    path.write_text(BASE + REGISTRIES + "causeway.schemas = copy\n")
    assert load_mm2(path).links[0].treatments == ()


def test_a_transform_behind_a_translation_asks_the_target(tmp_path: Path) -> None:
    transform = """causeway.schemas = translate
A->B.causeway.transforms = pii
A->B.causeway.transform.pii.topics = orders
A->B.causeway.transform.pii.rules = drop value.$.mail
A->B.causeway.transform.pii.value.format = avro
A->B.causeway.transform.pii.registry.url = """
    told = refusal(tmp_path, f"{REGISTRIES}{transform}https://a:8081")
    assert "set it to http://b:8081" in told
    assert read(tmp_path, f"{REGISTRIES}{transform}http://b:8081") is not None
