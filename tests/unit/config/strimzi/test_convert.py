"""Property file, resource and causeway.yaml: one becomes the other, and says the same."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import javaproperties
import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from causeway.config.settings import LinkSettings, Settings
from causeway.errors import ConfigError
from causeway.formats.causeway_yaml import shape
from causeway.formats.causeway_yaml.shape import Section
from causeway.formats.convert import Converted, convert
from causeway.formats.load import Form, load
from tests.harness.examples import examples
from tests.unit.config.pems import make_pem
from tests.unit.config.strimzi.test_read import EXAMPLES, RESOURCES, mount
from tests.unit.config.test_convert import ENVIRONMENT, PROVIDERS, TEXTS, values

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
HEAD = {
    "clusters": "A, B, C",
    **{f"{alias}.bootstrap.servers": f"{alias}:1" for alias in "ABC"},
    "A->B.enabled": "true",
    "C->B.enabled": "true",
}


def judged(file: Path, secrets: Path | None = None) -> Settings | None:
    """Without what speaks of lines, and of what is without effect; None where it is refused."""
    environment = ENVIRONMENT | ({} if secrets is None else {"CAUSEWAY_SECRETS": str(secrets)})
    try:
        found = load(file, environment=environment)
    except ConfigError:
        return None
    links = tuple(sorted(map(_placeless, found.links), key=lambda link: link.name))
    beats = tuple(sorted(found.heartbeat_links, key=lambda each: each.name))
    return replace(found, links=links, heartbeat_links=beats, warnings=())


def _placeless(link: LinkSettings) -> LinkSettings:
    schemas = link.schemas
    if schemas is not None:
        one, two = (replace(each, place="") for each in (schemas.source, schemas.target))
        schemas = replace(schemas, source=one, target=two)
    transforms = tuple(replace(each, place="") for each in link.transforms)
    return replace(link, transforms=transforms, schemas=schemas)


def written(directory: Path, entries: Mapping[str, str], name: str = "mirror.properties") -> Path:
    file = directory / name
    file.write_text(javaproperties.dumps(dict(entries), timestamp=False))
    return file


def other(directory: Path, found: Converted, name: str) -> Path:
    file = directory / name
    file.write_text(found.text)
    return file


# What needs others beside it, or is text of a form of its own.
_HARD = re.compile(
    "ssl[.]|[.]tls|sasl|bootstrap|security|webhook|rename|port|http|read.only|way.back|cluster.alias"
)


def good(prefix: str, section: Section) -> st.SearchStrategy[dict[str, str]]:
    """Some of a section's keys, with values that each may have."""
    of = {
        prefix + leaf.key: values(leaf).filter(lambda text: text not in ("", "x", "010"))
        for _, leaf in section.leaves()
        if not _HARD.search(leaf.key) and (leaf.key in TEXTS or leaf.schema.get("type") != "string")
    }
    return st.fixed_dictionaries({}, optional=of)


def listed(flow: str, name: str) -> st.SearchStrategy[dict[str, str]]:
    """A transform that `flow` lists, by its own name or for all flows."""
    plain = st.just({f"{flow}causeway.transforms": name, f"causeway.transform.{name}.topics": "x"})
    return st.just({}) | plain.map(
        lambda found: (
            found | {f"causeway.transform.{name}.sql": "SELECT * FROM records WHERE 'ä' = ''"}
        )
    )


REGISTRIES = {
    "A->B.causeway.schemas": "copy",
    "A.causeway.registry.url": "http://a:8081",
    "A.causeway.registry.username": "me",
    "A.causeway.registry.password": "${env:WORD}",
    "B.causeway.registry.url": "http://b:8081",
}
FILES = st.tuples(
    good("", shape.defaults()),
    good("A->B.", shape.link()),
    good("", shape.run()),
    st.sampled_from([{}, REGISTRIES]),
    listed("", "pii") | listed("A->B.", "cards"),
    st.fixed_dictionaries(
        {},
        optional={
            "A->B.causeway.paused": st.sampled_from(
                ["records", "checkpoints, records", "heartbeats"]
            ),
            "topics.blacklist": st.just("old.*"),
            "A->B.source.consumer.fetch.max.bytes": st.just("77"),
            "A->B.consumer.fetch.max.bytes": st.just("78"),
            "A->B.target.producer.client.id": st.just("p"),
            "A->B.source.producer.client.id": st.just("s"),
            "A->B.target.admin.client.id": st.just("a"),
            "A->B.producer.override.client.id": st.just("o"),
            "A->B.source.cluster.bootstrap.servers": st.just("other:1"),
            "B->A.emit.heartbeats.enabled": st.sampled_from(["true", "false"]),
            "A->B.causeway.mirror.maker.offsets.topic": st.just("offsets"),
            "tasks.max": st.just("4"),
            "B.causeway.registry.url": st.just("http://b:8081"),
            "A->B.source.cluster.alias": st.sampled_from(["eu", "${env:WORD}"]),
            "security.protocol": st.just("SSL"),
            "A.security.protocol": st.sampled_from(["PLAINTEXT", "ssl"]),
            "B.ssl.endpoint.identification.algorithm": st.just(""),
            "B.offset.storage.topic": st.just("x"),
            "spark.master": st.just("local[2]"),
            "no.such.key": st.just("x"),
            "A->B.sasl.unknown": st.just("x"),
        },
    ),
)


_JUDGED = {True: 0, False: 0}


@given(FILES)
@settings(
    max_examples=examples(40),
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
def test_a_property_file_becomes_a_resource_and_back(parts: tuple[dict[str, str], ...]) -> None:
    """The same settings each time; what the resource cannot hold is refused."""
    entries = {key: text for part in (*parts, HEAD, PROVIDERS) for key, text in part.items()}
    with tempfile.TemporaryDirectory() as root:
        directory = Path(root)
        file = written(directory, entries)
        before = judged(file)
        _JUDGED[before is not None] += 1
        if before is None:
            return
        resource = other(directory, convert(file, Form.STRIMZI), "mirror.yaml")
        assert judged(resource) == before
        back = other(directory, convert(resource, Form.PROPERTIES), "back.properties")
        assert judged(back) == before
        again = other(directory, convert(back, Form.STRIMZI), "again.yaml")
        assert judged(again) == before
        ours = other(directory, convert(resource, Form.CAUSEWAY), "causeway.yaml")
        assert judged(ours) == before


def test_most_of_these_files_could_be_used() -> None:
    assert _JUDGED[True] >= _JUDGED[False]


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("secrets")
    key, certificate = make_pem()
    for name in ("cluster-a", "cluster-b"):
        user = {"password": "word", "user.crt": certificate, "user.key": key}
        mount(root / f"{name}-user", user)
        mount(root / f"{name}-cluster-ca-cert", {"ca.crt": certificate, "old.crt": certificate})
    return root


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_published_example_becomes_a_property_file_and_back(
    name: str, secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSEWAY_SECRETS", str(secrets))
    before = judged(RESOURCES / f"{name}.yaml", secrets)
    assert before is not None
    file = other(tmp_path, convert(RESOURCES / f"{name}.yaml"), "mirror.properties")
    assert "word" not in re.sub("passw?ord", "", file.read_text())
    assert "BEGIN" not in file.read_text()
    assert judged(file) == before
    found = convert(file, Form.STRIMZI)
    assert not any("to be made" in note for note in found.notes)
    resource = other(tmp_path, found, "mirror.yaml")
    assert judged(resource, secrets) == before
    for text in ("secretName: cluster-a-user", "certificate: ca.crt"):
        assert ("scram" in name or "tls" in name) == (text in found.text)


def test_oauth_with_certificates_of_its_own_becomes_a_property_file_and_back(
    secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSEWAY_SECRETS", str(secrets))
    resource = yaml.safe_load((RESOURCES / "v1beta2-plain.yaml").read_text())
    name = "cluster-a-cluster-ca-cert"
    for certificates in (["ca.crt"], ["ca.crt", "old.crt"]):
        resource["spec"]["clusters"][0]["authentication"] = {
            "type": "oauth",
            "clientId": "me",
            "clientSecret": {"secretName": "cluster-a-user", "key": "password"},
            "tokenEndpointUri": "https://idp/token",
            "tlsTrustedCertificates": [
                {"secretName": name, "certificate": each} for each in certificates
            ],
        }
        file = tmp_path / "oauth.yaml"
        file.write_text(yaml.safe_dump(resource))
        before = judged(file, secrets)
        assert before is not None
        sasl = before.links[0].source.sasl
        assert sasl is not None
        assert sasl.oauth is not None
        assert (sasl.oauth.ca_pem or "").count("BEGIN") == len(certificates)
        back = other(tmp_path, convert(file), "oauth.properties")
        assert "BEGIN" not in back.read_text()
        assert judged(back) == before
        for form in (Form.STRIMZI, Form.CAUSEWAY):
            assert judged(other(tmp_path, convert(back, form), "again.yaml"), secrets) == before


def test_what_is_a_secret_is_named_and_not_written(tmp_path: Path) -> None:
    key, certificate = make_pem()
    (tmp_path / "ca.pem").write_text(certificate)
    (tmp_path / "me.pem").write_text(key + certificate)
    file = written(
        tmp_path,
        {
            "clusters": "A, B",
            "A.bootstrap.servers": "a:1",
            "B.bootstrap.servers": "b:1",
            "A->B.enabled": "true",
            "A.security.protocol": "SASL_SSL",
            "A.sasl.mechanism": "SCRAM-SHA-512",
            "A.sasl.jaas.config": f'{SCRAM} required username="me" password="letmein";',
            "A.ssl.truststore.location": str(tmp_path / "ca.pem"),
            "A.ssl.truststore.type": "PEM",
            "B.security.protocol": "SSL",
            "B.ssl.keystore.location": str(tmp_path / "me.pem"),
            "B.ssl.keystore.type": "PEM",
        },
    )
    found = convert(file, Form.STRIMZI)
    assert "letmein" not in found.text
    (told,) = (note for note in found.notes if "to be made" in note)
    for secret in (
        "a-login with password",
        "a-cluster-ca-cert with ca.crt",
        "b-client with user.crt",
    ):
        assert secret in told
    assert "letmein" not in told
    root = tmp_path / "secrets"
    mount(root / "a-login", {"password": "letmein"})
    mount(root / "a-cluster-ca-cert", {"ca.crt": certificate})
    mount(root / "b-client", {"user.crt": certificate, "user.key": key})
    one, two = judged(other(tmp_path, found, "mirror.yaml"), root), judged(file)
    assert one is not None
    assert two is not None
    assert one == two


def test_a_secret_is_not_shown_for_a_reference_within_it(tmp_path: Path) -> None:
    entries = HEAD | {
        "A.security.protocol": "SASL_SSL",
        "A.sasl.mechanism": "PLAIN",
        "A.sasl.jaas.config": "o.PlainLoginModule required"
        ' username="me" password="let${env:WORD}in";',
    }
    found = convert(written(tmp_path, entries), Form.STRIMZI)
    assert "a-login with password" in " ".join(found.notes)
    for text in (found.text, *found.notes):
        assert "let${" not in text
        assert "}in" not in text
    entries["A.sasl.mechanism"] = "OAUTHBEARER"
    entries["A.sasl.jaas.config"] = (
        'o.OAuthBearerLoginModule required clientId="me" clientSecret="let${env:WORD}in";'
    )
    with pytest.raises(ConfigError, match="it is a secret"):
        convert(written(tmp_path, entries), Form.STRIMZI)


def test_a_resource_is_one_that_strimzi_would_take(tmp_path: Path) -> None:
    file = written(
        tmp_path, HEAD | {"topics": "orders.*", "A->B.groups": "g"}, "My Orders.properties"
    )
    found = yaml.safe_load(convert(file, Form.STRIMZI).text)
    assert found["metadata"] == {"name": "my-orders"}
    target = found["spec"]["target"]
    assert {"groupId", "configStorageTopic", "offsetStorageTopic", "statusStorageTopic"} <= {
        *target
    }
    one, two = found["spec"]["mirrors"]
    assert (one["topicsPattern"], one["groupsPattern"]) == ("orders.*", "g")
    assert two["source"] == {"alias": "C", "bootstrapServers": "C:1"}


def test_a_pattern_needs_the_secrets_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAUSEWAY_SECRETS", raising=False)
    with pytest.raises(ConfigError, match=r"pattern \(line .* name it with --secrets DIR"):
        convert(RESOURCES / "v1-scram.yaml")


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ({"B->A.enabled": "true"}, "a resource has one target"),
        ({"C->B.enabled": "false"}, "no flow to B is from there"),
        ({"A->B.enabled": "false", "C->B.enabled": "false"}, "no flow is enabled"),
        ({"A->B.enabled": "${env:WORD}"}, "must say true or false"),
        (
            {
                "A.bootstrap.servers": "",
                "A.security.protocol": "SASL_SSL",
                "A.sasl.mechanism": "OAUTHBEARER",
                "A.sasl.jaas.config": 'o.OAuthBearerLoginModule required clientId="me"'
                ' clientSecret="p";',
            },
            "it is a secret, for which a resource has no field",
        ),
        ({"causeway.http.token": "0123456789abcdef"}, "causeway.http.token: it is a secret"),
        ({"spark.my.password": "p"}, "spark.my.password: it is a secret"),
        (
            {"A->B.source.consumer.ssl.key.password": "p"},
            "A->B.source.consumer.ssl.key.password: it is a secret",
        ),
        ({"A.consumer.ssl.key.password": "p"}, "A.consumer.ssl.key.password: it is a secret"),
        (
            {
                "config.providers": "mine",
                "config.providers.mine.class": "org.apache.kafka.common.config.provider."
                "EnvVarConfigProvider",
                "A.consumer.client.id": "${mine:NAME}",
            },
            "a resource cannot say A->B.source.consumer.client.id",
        ),
    ],
)
def test_what_a_resource_cannot_hold_is_refused(
    entries: dict[str, str], told: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        convert(written(tmp_path, HEAD | entries), Form.STRIMZI)


def test_the_same_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has that form already"):
        convert(written(tmp_path, HEAD), Form.PROPERTIES)
    with pytest.raises(ConfigError, match="has that form already"):
        convert(RESOURCES / "v1-plain.yaml", Form.STRIMZI)
