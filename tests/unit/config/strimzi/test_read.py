"""A resource as Strimzi takes it becomes the settings that it stands for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from causeway.config import LinkSettings, Settings
from causeway.errors import ConfigError
from causeway.formats import load
from tests.harness.pems import make_pem
from tests.harness.strimzi import EXAMPLES, RESOURCES, mount

PASSWORD = 'p"w\\x ${y}'


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Kubernetes mounts them: the files lie in `..data`."""
    root = tmp_path_factory.mktemp("secrets")
    key, certificate = make_pem()
    for cluster in ("cluster-a", "cluster-b"):
        user = {"password": f"{PASSWORD}\n", "user.crt": certificate, "user.key": key}
        trusted = {"ca.crt": certificate, "ca-old.crt": certificate, "ca.password": "x"}
        mount(root / f"{cluster}-user", user)
        mount(root / f"{cluster}-cluster-ca-cert", trusted)
    return root


def example(name: str) -> dict[str, Any]:
    found = yaml.safe_load((RESOURCES / f"{name}.yaml").read_text())
    assert isinstance(found, dict)
    return found


def of(resource: Any, tmp_path: Path, secrets: Path | None = None) -> Settings:
    file = tmp_path / "mirror.yaml"
    file.write_text(resource if isinstance(resource, str) else yaml.safe_dump(resource))
    environment = {"TOKEN": "t"} if secrets is None else {"CAUSEWAY_SECRETS": str(secrets)}
    return load(file, environment=environment)


def link(resource: Any, tmp_path: Path, secrets: Path | None = None) -> LinkSettings:
    (found,) = of(resource, tmp_path, secrets).links
    return found


def refused(resource: Any, tmp_path: Path, secrets: Path | None = None) -> str:
    with pytest.raises(ConfigError) as error:
        of(resource, tmp_path, secrets)
    return str(error.value)


def mirror(resource: dict[str, Any]) -> dict[str, Any]:
    found = resource["spec"]["mirrors"][0]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_published_example_can_be_used(name: str, secrets: Path) -> None:
    settings = load(RESOURCES / f"{name}.yaml", environment={"CAUSEWAY_SECRETS": str(secrets)})
    (found,) = settings.links
    assert found.name == "cluster-a->cluster-b"
    assert found.policy.kind == ("identity" if "identity" in name else "default")
    assert found.control.checkpoints_replication_factor == -1
    assert found.control.sync_group_offsets_enabled == any(
        word in name for word in ("groups", "scram", "tls")
    )
    assert found.records_paused == (name == "v1-tls")
    assert found.control.mm2_connector == "cluster-a->cluster-b.MirrorSourceConnector"
    assert settings.heartbeat_links == ()
    assert settings.warnings[0].startswith("without meaning here: spec.version, spec.replicas")
    if name == "v1-plain":
        assert found.control.offset_syncs_topic_location == "target"
        assert found.control.mm2_offsets_topic == "__my-mirror-maker-2-offset"
    if name == "v1beta2-plain":
        assert found.control.mm2_offsets_topic == "mirrormaker2-cluster-offsets"
    if "scram" in name:
        for client in (found.source, found.target_admin):
            assert client.protocol == "SASL_SSL"
            assert client.sasl is not None
            assert client.sasl.mechanism == "SCRAM-SHA-512"
            assert client.sasl.password.reveal() == PASSWORD
            assert client.tls is not None
            assert (client.tls.ca_pem or "").count("BEGIN") == 2
    if "tls" in name:
        assert found.target.protocol == "SSL"
        assert found.target.tls is not None
        assert found.target.tls.key_pem is not None
    assert PASSWORD[:3] not in repr(settings)


def test_a_mirror_without_a_source_connector_copies_nothing_and_says_so(secrets: Path) -> None:
    settings = load(RESOURCES / "v1-tls.yaml", environment={"CAUSEWAY_SECRETS": str(secrets)})
    assert any("has no sourceConnector, so that no record" in line for line in settings.warnings)


@pytest.mark.parametrize("state", ["paused", "stopped"])
@pytest.mark.parametrize("name", ["v1-groups", "v1beta2-groups"])
def test_states_are_honoured(name: str, state: str, tmp_path: Path) -> None:
    resource = example(name)
    mirror(resource)["sourceConnector"]["state"] = state
    found = link(resource, tmp_path)
    assert found.records_paused
    assert "spec.mirrors[0].sourceConnector.state" in found.places["causeway.paused"]
    assert found.control.emit_checkpoints_enabled
    mirror(resource)["sourceConnector"]["state"] = "running"
    mirror(resource)["checkpointConnector"]["state"] = state
    found = link(resource, tmp_path)
    assert not found.records_paused
    assert not found.control.emit_checkpoints_enabled
    assert not found.control.sync_group_offsets_enabled


def test_the_older_pause_counts_where_no_state_is_said(tmp_path: Path) -> None:
    resource = example("v1beta2-plain")
    mirror(resource)["sourceConnector"]["pause"] = True
    assert link(resource, tmp_path).records_paused
    mirror(resource)["sourceConnector"]["state"] = "running"
    assert not link(resource, tmp_path).records_paused


@pytest.mark.parametrize("version", ["v1beta2", "v1alpha1"])
def test_a_resource_of_ibm_event_streams_has_strimzi_s_form(version: str, tmp_path: Path) -> None:
    resource = example("v1beta2-plain")
    before = link(resource, tmp_path)
    resource["apiVersion"] = f"eventstreams.ibm.com/{version}"
    assert link(resource, tmp_path) == before


def test_no_checkpoint_connector_no_checkpoints(tmp_path: Path) -> None:
    resource = example("v1-groups")
    del mirror(resource)["checkpointConnector"]
    control = link(resource, tmp_path).control
    assert not control.emit_checkpoints_enabled
    assert not control.sync_group_offsets_enabled


def test_heartbeats_only_where_there_is_a_connector_for_them(tmp_path: Path) -> None:
    resource = example("v1beta2-plain")
    mirror(resource)["heartbeatConnector"] = {"config": {"heartbeats.topic.replication.factor": 1}}
    (beats,) = of(resource, tmp_path).heartbeat_links
    assert (beats.name, beats.replication_factor) == ("cluster-a->cluster-b", 1)
    mirror(resource)["heartbeatConnector"]["state"] = "paused"
    assert of(resource, tmp_path).heartbeat_links == ()


def test_each_connectors_config_counts_where_it_acts(tmp_path: Path) -> None:
    resource = example("v1-plain")
    part = mirror(resource)
    part["sourceConnector"]["config"] |= {
        "refresh.topics.interval.seconds": 7,
        "groups": "not-here",
        "consumer.fetch.max.bytes": 1000,
        "consumer.override.isolation.level": "read_uncommitted",
        "producer.override.request.timeout.ms": 5000,
        "producer.batch.size": 1,
        "source.cluster.security.protocol": "SSL",
        "source.cluster.alias": "east",
    }
    part["checkpointConnector"]["config"] |= {
        "refresh.topics.interval.seconds": 9,
        "groups": "from-config",
        "groups.exclude": "x.*",
        "producer.override.linger.ms": 5,
        "source.cluster.alias": "east",
    }
    del part["groupsPattern"]
    settings = of(resource, tmp_path)
    (found,) = settings.links
    assert found.refresh_topics_interval_s == 7
    assert [each.pattern for each in found.control.groups] == ["from-config"]
    assert [each.pattern for each in found.control.groups_exclude] == ["x.*"]
    assert found.fetch.max_bytes == 1000
    assert not found.fetch.read_committed
    assert found.target.request_timeout_ms == 5000
    assert found.target_admin.request_timeout_ms == 30_000
    assert (found.source.protocol, found.source_admin.protocol) == ("SSL", "SSL")
    assert found.target.protocol == "PLAINTEXT"
    assert found.name == "east->cluster-b"
    (ignored,) = (line for line in settings.warnings if line.startswith("without meaning here: "))
    for path in (
        "sourceConnector.config.groups",
        "checkpointConnector.config.refresh.topics.interval.seconds",
        "checkpointConnector.config.producer.override.linger.ms",
    ):
        assert f"spec.mirrors[0].{path}" in ignored
    assert any(
        "not acted on" in line and "producer.batch.size" in line for line in settings.warnings
    )


def test_the_narrower_key_of_a_client_wins(tmp_path: Path) -> None:
    resource = example("v1-plain")
    config = mirror(resource)["sourceConnector"]["config"]
    config |= {"consumer.override.fetch.max.bytes": 2, "consumer.fetch.max.bytes": 1}
    assert link(resource, tmp_path).fetch.max_bytes == 2
    config["source.consumer.fetch.max.bytes"] = 3
    assert link(resource, tmp_path).fetch.max_bytes == 3
    config |= {
        "consumer.bootstrap.servers": "reader:1",
        "source.cluster.bootstrap.servers": "all:1",
    }
    found = link(resource, tmp_path)
    assert found.source.bootstrap == (("reader", 1),)
    assert found.source_admin.bootstrap == (("all", 1),)


def test_patterns_win_over_configs_and_new_names_over_old(tmp_path: Path) -> None:
    resource = example("v1beta2-plain")
    part = mirror(resource)
    part["sourceConnector"]["config"] |= {"topics": "config", "topics.exclude": "config"}
    part |= {"topicsPattern": "a,b", "topicsBlacklistPattern": "old"}
    part["groupsBlacklistPattern"] = "g"
    found = link(resource, tmp_path)
    assert [each.pattern for each in found.topics] == ["a", "b"]
    assert [each.pattern for each in found.topics_exclude] == ["old"]
    assert [each.pattern for each in found.control.groups_exclude] == ["g"]
    part["topicsExcludePattern"] = "new"
    assert [each.pattern for each in link(resource, tmp_path).topics_exclude] == ["new"]


def test_connectors_must_agree_on_names(tmp_path: Path) -> None:
    resource = example("v1-identity")
    config = mirror(resource)["checkpointConnector"]["config"]
    config["replication.policy.class"] = "DefaultReplicationPolicy"
    text = refused(resource, tmp_path)
    assert "spec.mirrors[0].checkpointConnector.config.replication.policy.class (line" in text
    assert "must have the same value" in text


@pytest.mark.parametrize(
    ("key", "other", "same"),
    [
        ("replication.policy.class", "IdentityReplicationPolicy", "DefaultReplicationPolicy"),
        ("replication.policy.separator", "_", "."),
        ("offset-syncs.topic.location", "target", "source"),
    ],
)
def test_a_name_that_the_source_connector_goes_without_changes_no_topics(
    key: str, other: str, same: str, tmp_path: Path
) -> None:
    """Strimzi's records go to `cluster-a.orders`, whatever the checkpoints look for."""
    resource = example("v1-groups")
    for connector in ("sourceConnector", "checkpointConnector"):
        mirror(resource)[connector]["config"].pop(key, None)
    config = mirror(resource)["checkpointConnector"]["config"]
    config[key] = other
    assert "is missing in sourceConnector.config" in refused(resource, tmp_path)
    config[key] = same
    found = link(resource, tmp_path)
    assert found.decide_topic("orders").target_name == "cluster-a.orders"
    assert found.control.offset_syncs_topic_location == "source"


def test_heartbeats_change_no_names(tmp_path: Path) -> None:
    resource = example("v1beta2-plain")
    key = "replication.policy.class"
    mirror(resource)["heartbeatConnector"] = {"config": {key: "IdentityReplicationPolicy"}}
    settings = of(resource, tmp_path)
    assert settings.links[0].policy.kind == "default"
    assert f"spec.mirrors[0].heartbeatConnector.config.{key}" in settings.warnings[0]


def test_what_is_acted_on_is_not_called_idle_nor_the_other_way_round(tmp_path: Path) -> None:
    resource = example("v1-plain")
    part = mirror(resource)
    part["sourceConnector"]["config"] |= {
        "source.cluster.security.protocol": "SSL",
        "consumer.fetch.max.bytes": 1000,
    }
    part["checkpointConnector"]["config"] |= {"consumer.fetch.max.bytes": 2000}
    settings = of(resource, tmp_path)
    assert settings.links[0].source_admin.protocol == "SSL"
    told = " ".join(settings.warnings)
    assert "source.cluster.security.protocol" not in told
    assert "checkpointConnector.config.consumer.fetch.max.bytes" in told


def test_several_sources_are_a_link_each(tmp_path: Path) -> None:
    resource = example("v1-plain")
    other = yaml.safe_load(yaml.safe_dump(mirror(resource)))
    other["source"] = {"alias": "cluster-c", "bootstrapServers": "c:9092"}
    resource["spec"]["mirrors"].append(other)
    names = [each.name for each in of(resource, tmp_path).links]
    assert names == ["cluster-a->cluster-b", "cluster-c->cluster-b"]
    other["source"]["alias"] = "cluster-a"
    assert "spec.mirrors[1]" in refused(resource, tmp_path)
    other["source"]["alias"] = "cluster-b"
    assert "is the target as well" in refused(resource, tmp_path)


# -- who we are


def test_plain_without_tls_and_the_systems_certificates(tmp_path: Path, secrets: Path) -> None:
    resource = example("v1-plain")
    word = {"secretName": "cluster-b-user", "password": "password"}
    login = {"type": "plain", "username": "u", "passwordSecret": word}
    resource["spec"]["target"]["authentication"] = login
    found = link(resource, tmp_path, secrets).target
    assert found.protocol == "SASL_PLAINTEXT"
    assert found.sasl is not None
    assert (found.sasl.username, found.sasl.password.reveal()) == ("u", PASSWORD)
    resource["spec"]["target"]["tls"] = {"trustedCertificates": []}
    found = link(resource, tmp_path, secrets).target
    assert found.protocol == "SASL_SSL"
    assert found.tls is not None
    assert found.tls.ca_pem is None


def test_oauth_of_the_older_version(tmp_path: Path, secrets: Path) -> None:
    resource = example("v1beta2-plain")
    login = {
        "type": "oauth",
        "clientId": "me",
        "clientSecret": {"secretName": "cluster-a-user", "key": "password"},
        "tokenEndpointUri": "https://idp/token",
        "scope": "kafka",
        "saslExtensions": {"tenant": "x"},
        "connectTimeoutSeconds": 10,
    }
    resource["spec"]["clusters"][0]["authentication"] = login
    settings = of(resource, tmp_path, secrets)
    sasl = settings.links[0].source.sasl
    assert sasl is not None
    assert sasl.oauth is not None
    assert (sasl.oauth.client_id, sasl.oauth.scope) == ("me", "kafka")
    assert sasl.oauth.client_secret.reveal() == PASSWORD
    assert sasl.oauth.extensions == {"tenant": "x"}
    assert sasl.oauth.ca_pem is None
    assert "authentication.connectTimeoutSeconds" in settings.warnings[0]
    trusted = {"secretName": "cluster-a-cluster-ca-cert", "pattern": "*.crt"}
    login["tlsTrustedCertificates"] = [trusted]
    sasl = of(resource, tmp_path, secrets).links[0].source.sasl
    assert sasl is not None
    assert sasl.oauth is not None
    assert (sasl.oauth.ca_pem or "").count("BEGIN") == 2
    trusted["pattern"] = "*.pem"
    assert "no key of the Secret cluster-a-cluster" in refused(resource, tmp_path, secrets)
    del login["tlsTrustedCertificates"]
    resource = example("v1-plain")
    resource["spec"]["target"]["authentication"] = {"type": "oauth"}
    assert "write type: custom" in refused(resource, tmp_path, secrets)


@pytest.mark.parametrize(
    ("proof", "grant", "field"),
    [
        ("refreshToken", "refresh_token", "refresh_token"),
        ("clientAssertion", "client_credentials", "client_assertion"),
        ("passwordSecret", "password", "password"),
    ],
)
def test_oauth_without_a_client_s_secret(
    proof: str, grant: str, field: str, tmp_path: Path, secrets: Path
) -> None:
    resource = example("v1beta2-plain")
    part = "password" if proof == "passwordSecret" else "key"
    login = {
        "type": "oauth",
        "clientId": "me",
        "username": "u",
        "tokenEndpointUri": "https://idp/token",
        "audience": "kafka",
        proof: {"secretName": "cluster-a-user", part: "password"},
    }
    resource["spec"]["clusters"][0]["authentication"] = login
    sasl = of(resource, tmp_path, secrets).links[0].source.sasl
    assert sasl is not None
    assert sasl.oauth is not None
    assert (sasl.oauth.grant, sasl.oauth.client_secret.reveal()) == (grant, "")
    assert sasl.oauth.fields[field].reveal() == PASSWORD
    assert sasl.oauth.fields["audience"].reveal() == "kafka"


def test_oauth_by_a_token_of_a_secret(tmp_path: Path, secrets: Path) -> None:
    resource = example("v1beta2-plain")
    token = {"secretName": "cluster-a-user", "key": "password"}
    login: dict[str, Any] = {"type": "oauth", "accessToken": token}
    resource["spec"]["clusters"][0]["authentication"] = login
    sasl = of(resource, tmp_path, secrets).links[0].source.sasl
    assert sasl is not None
    assert sasl.oauth is not None
    assert sasl.oauth.access_token.reveal() == PASSWORD
    token["key"] = "tokn"
    assert "has no key tokn" in refused(resource, tmp_path, secrets)


def test_oauth_by_files(tmp_path: Path, secrets: Path) -> None:
    """A token, or an assertion, that another program renews."""
    resource = example("v1beta2-plain")
    (tmp_path / "word").write_text("hunter2")
    login: dict[str, Any] = {"type": "oauth", "accessTokenLocation": str(tmp_path / "word")}
    resource["spec"]["clusters"][0]["authentication"] = login
    sasl = of(resource, tmp_path, secrets).links[0].source.sasl
    assert sasl is not None
    assert sasl.oauth is not None
    assert sasl.oauth.access_token.reveal() == "hunter2"
    assert sasl.oauth.files == {"access_token": str(tmp_path / "word")}
    login = {
        "type": "oauth",
        "clientId": "me",
        "tokenEndpointUri": "https://idp/token",
        "clientAssertionLocation": str(tmp_path / "word"),
        "grantType": "own",
    }
    resource["spec"]["clusters"][0]["authentication"] = login
    sasl = of(resource, tmp_path, secrets).links[0].source.sasl
    assert sasl is not None
    assert sasl.oauth is not None
    assert sasl.oauth.grant == "own"
    assert sasl.oauth.fields["client_assertion"].reveal() == "hunter2"
    login["clientAssertionLocation"] = "/no/such"
    assert "there is no such file" in refused(resource, tmp_path, secrets)


def test_custom_and_config_providers(
    tmp_path: Path, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = example("v1-plain")
    target = resource["spec"]["target"]
    target["config"] |= {
        "config.providers": "mine",
        "config.providers.mine.class": "io.strimzi.kafka.KubernetesSecretConfigProvider",
    }
    target["authentication"] = {
        "type": "custom",
        "sasl": True,
        "config": {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": "o.OAuthBearerLoginModule required clientId=me"
            ' clientSecret="${mine:kafka/cluster-b-user:ca}";',
            "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
            "ssl.truststore.location": "/not/passed/on",
        },
    }
    mount(secrets / "plain", {"ca": "word"})
    text = yaml.safe_dump(resource).replace("cluster-b-user:ca", "plain:ca")
    settings = of(text, tmp_path, secrets)
    sasl = settings.links[0].target.sasl
    assert sasl is not None
    assert sasl.oauth is not None
    assert sasl.oauth.client_secret.reveal() == "word"
    assert "config.ssl.truststore.location" in settings.warnings[0]
    assert "has no key other" in refused(text.replace("plain:ca", "plain:other"), tmp_path, secrets)
    assert "is not supported, only" in refused(
        text.replace("KubernetesSecretConfigProvider", "VaultConfigProvider"), tmp_path, secrets
    )


def test_a_certificate_without_tls_is_refused(tmp_path: Path, secrets: Path) -> None:
    resource = example("v1-tls")
    del resource["spec"]["target"]["tls"]
    assert "spec.target.authentication" in refused(resource, tmp_path, secrets)


# -- what is of the whole file


def test_a_targets_config_holds_what_a_resource_has_no_place_for(tmp_path: Path) -> None:
    resource = example("v1-plain")
    resource["spec"]["target"]["config"] |= {
        "causeway.lanes": 3,
        "spark.executor.memory": "2g",
        "cluster-b->cluster-a.emit.heartbeats.enabled": "true",
    }
    mirror(resource)["sourceConnector"]["config"]["causeway.throttle.bytes.per.second"] = 1000
    settings = of(resource, tmp_path)
    assert settings.run.lanes == 3
    assert settings.spark == {"spark.executor.memory": "2g"}
    assert [each.name for each in settings.heartbeat_links] == ["cluster-b->cluster-a"]
    assert settings.links[0].throttle_bytes_per_s == 1000


# -- what is refused


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"mirrors": []}, "spec.mirrors names no mirror"),
        ({"mirorrs": []}, "spec.mirorrs (line"),
        ({"target": None}, "has no target"),
        ({"target": "x"}, "spec.target (line"),
        ({"mirrors": {}}, "spec.mirrors (line"),
        ({"clusters": []}, "is of v1beta2"),
    ],
)
def test_what_the_form_has_not_is_refused_with_its_path(
    change: dict[str, Any], told: str, tmp_path: Path
) -> None:
    resource = example("v1-plain")
    resource["spec"] |= change
    assert told in refused(resource, tmp_path)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("sourceConnector", "state"), "halted", "must be one of running, paused, stopped"),
        (("sourceConnector", "tasksMax"), 0, "must be a whole number of at least 1"),
        (("sourceConnector", "pause"), True, "is of v1beta2"),
        (("topicPattern",), "x", "did you mean topicsPattern?"),
        (("sync.acls",), "x", ".sync.acls (line"),
        (("heartbeatConnector",), {}, "is of v1beta2"),
        (("topicsPattern",), "(", "spec.mirrors[0].topicsPattern (line"),
        (("sourceConnector", "config", "sync.topic.acls.enabled"), "maybe", "true or false"),
        (("sourceConnector", "config"), {"enabled": "false"}, "write state: stopped"),
        (("sourceConnector", "config"), {"topics": ["a"]}, "must be one value"),
        (("source",), {"alias": "a", "bootstrapServers": "a"}, "is not host:port"),
        (("source",), {"alias": "a b", "bootstrapServers": "a:1"}, "topic names cannot have"),
        (("source", "tls"), {"trustedCertificates": [{"secretName": "s"}]}, "either certificate"),
    ],
)
def test_an_error_in_a_mirror_is_reported_with_its_path(
    path: tuple[str, ...], value: Any, told: str, tmp_path: Path
) -> None:
    resource = example("v1-plain")
    part = mirror(resource)
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    assert told in refused(resource, tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("apiVersion: v1\nkind: List\nitems: []\n", "it is a list of resources"),
        ("apiVersion: v1\nkind: ConfigMap\n", "must be a KafkaMirrorMaker2 of"),
        ("apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnect\n", "of kind 'KafkaConnect'"),
        ("apiVersion: kafka.strimzi.io/v1alpha1\nkind: KafkaMirrorMaker2\n", "is not known"),
        ("apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\n", "it has no spec"),
        ("apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\nspce: {}\n", "mean spec?"),
        ("kind: KafkaMirrorMaker2\nspec: {}\n", "must be a KafkaMirrorMaker2 of"),
        (
            "apiVersion: eventstreams.ibm.com/v9\nkind: KafkaMirrorMaker2\nspec: {}\n",
            "apiVersion eventstreams.ibm.com/v9 is not known",
        ),
        ("- apiVersion: kafka.strimzi.io/v1\n", "it must be a map"),
        ("---\na: 1\n---\n...\n---\nb: 2\n", "a second document begins in line 6"),
        ("\n", "the file is empty"),
    ],
)
def test_a_yaml_file_that_is_something_else(text: str, told: str, tmp_path: Path) -> None:
    assert told in refused(text, tmp_path)


def test_documents_that_say_nothing_are_none(tmp_path: Path, secrets: Path) -> None:
    """As templates leave them behind."""
    text = (RESOURCES / "v1-plain.yaml").read_text()
    found = link(f"---\n# nothing\n---\n{text}---\n", tmp_path, secrets)
    assert found.name == "cluster-a->cluster-b"


def test_an_unsupported_policy_is_reported_with_its_path(tmp_path: Path) -> None:
    resource = example("v1-plain")
    key = "replication.policy.class"
    for connector in ("sourceConnector", "checkpointConnector"):
        mirror(resource)[connector]["config"][key] = "com.example.Policy"
    text = refused(resource, tmp_path)
    assert f"spec.mirrors[0].sourceConnector.config.{key} (line" in text
    assert "a Java class cannot run here" in text


def test_a_target_for_all_mirrors(tmp_path: Path) -> None:
    resource = example("v1beta2-plain")
    mirror(resource)["targetCluster"] = "cluster-a"
    text = refused(resource, tmp_path)
    assert "spec.mirrors[0].targetCluster" in text
    assert "write a resource for each" in text
    mirror(resource)["targetCluster"] = "cluster-b"
    mirror(resource)["sourceCluster"] = "nobody"
    assert "none of spec.clusters, which are cluster-a" in refused(resource, tmp_path)


@pytest.mark.parametrize("alias", ["", "eu, west", "eu west", "config"])
def test_an_invalid_alias_is_reported_once(alias: str, tmp_path: Path) -> None:
    resource = example("v1-plain")
    mirror(resource)["source"]["alias"] = alias
    told = refused(resource, tmp_path)
    assert ": spec.mirrors[0].source.alias (line" in told
    assert "problems" not in told


def test_a_cluster_that_no_mirror_uses_is_named_and_one_that_another_form_names_too(
    tmp_path: Path,
) -> None:
    resource = example("v1beta2-plain")
    other = {"alias": "cluster-c", "bootstrapServers": "c:9092"}
    resource["spec"]["clusters"].append(other)
    (told, *_) = of(resource, tmp_path).warnings
    assert "spec.clusters[2]" in told
    assert "spec.clusters[1]" not in told
    resource["spec"]["target"] = {**other, "offsetStorageTopic": "offsets"}
    mirror(resource)["source"] = {"alias": "cluster-d", "bootstrapServers": "d:9092"}
    del mirror(resource)["targetCluster"]
    settings = of(resource, tmp_path)
    assert settings.links[0].name == "cluster-d->cluster-c"
    assert "spec.connectCluster" in settings.warnings[0]
    assert "spec.mirrors[0].sourceCluster" in settings.warnings[0]


def test_a_resource_file_without_a_yaml_extension_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mirror.txt"
    file.write_text((RESOURCES / "v1-plain.yaml").read_text())
    with pytest.raises(ConfigError, match=r"its name must end in \.yaml"):
        load(file, environment={})


def test_json_is_read_as_well(tmp_path: Path) -> None:
    """As `kubectl get -o json` writes it."""
    file = tmp_path / "mirror.json"
    file.write_text(json.dumps(example("v1-plain"), indent=4))
    assert load(file, environment={}).links[0].name == "cluster-a->cluster-b"


# -- secrets


@pytest.mark.parametrize(
    ("pattern", "count"),
    [("*.crt", 2), ("ca.crt", 1), ("ca{,-old}.crt", 2), ("{ca,x}.{crt,pem}", 1), ("c?-*", 1)],
)
def test_patterns_are_those_of_java(
    pattern: str, count: int, tmp_path: Path, secrets: Path
) -> None:
    resource = example("v1-plain")
    trusted = [{"secretName": "cluster-a-cluster-ca-cert", "pattern": pattern}]
    mirror(resource)["source"]["tls"] = {"trustedCertificates": trusted}
    tls = link(resource, tmp_path, secrets).source.tls
    assert tls is not None
    assert (tls.ca_pem or "").count("BEGIN") == count


def test_missing_secrets_are_reported(tmp_path: Path, secrets: Path) -> None:
    resource = example("v1-scram")
    text = refused(resource, tmp_path)
    assert "names the Secret cluster-a-user: set --secrets DIR" in text
    nowhere = tmp_path / "nowhere"
    assert f"--secrets {nowhere} is no directory" in refused(resource, tmp_path, nowhere)
    login = resource["spec"]["target"]["authentication"]
    login["passwordSecret"] = {"secretName": "cluster-b-usr", "password": "password"}
    assert "there is no Secret cluster-b-usr" in refused(resource, tmp_path, secrets)
    login["passwordSecret"] = {"secretName": "cluster-b-user", "password": "pasword"}
    text = refused(resource, tmp_path, secrets)
    assert "has no key pasword" in text
    assert "did you mean password?" in text
    login["passwordSecret"] = {"secretName": "../cluster-b-user", "password": "password"}
    assert "cannot be the name of a Secret" in refused(resource, tmp_path, secrets)
    trusted = resource["spec"]["target"]["tls"]["trustedCertificates"]
    trusted[0]["pattern"] = "*.pem"
    assert "no key of the Secret cluster-b-cluster-ca-cert" in refused(resource, tmp_path, secrets)
    for told in (PASSWORD, "BEGIN"):
        assert told not in refused(resource, tmp_path, secrets)


def test_an_empty_password_is_reported(tmp_path: Path, secrets: Path) -> None:
    mount(secrets / "empty", {"password": "\n"})
    resource = example("v1-scram")
    login = resource["spec"]["target"]["authentication"]
    login["passwordSecret"]["secretName"] = "empty"
    text = refused(resource, tmp_path, secrets)
    assert "spec.target.authentication.passwordSecret.password" in text
    assert "has nothing in it" in text
