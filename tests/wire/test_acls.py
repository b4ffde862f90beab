"""ACLs on real brokers, with an authorizer and without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from causeway.cluster import ANY_TOPIC, AclBinding, AclFilter, Cluster, SecurityDisabled
from causeway.cluster import acls as module
from causeway.config import ClientSettings, SaslSettings, Secret
from causeway.errors import AuthorizationError, BrokerError
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.secured import NOBODY, PASSWORD, SecuredCluster
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster(secured: SecuredCluster) -> Iterator[Cluster]:
    bootstrap = (("127.0.0.1", secured.port("CLIENT")),)
    with Cluster(ClientSettings(alias="B", bootstrap=bootstrap)) as running:
        yield running


def acl(name: str, operation: str = "READ", principal: str = "User:ann") -> AclBinding:
    return AclBinding(
        resource_type="TOPIC",
        name=name,
        pattern="LITERAL",
        principal=principal,
        host="*",
        operation=operation,
        permission="ALLOW",
    )


def found(cluster: Cluster, which: AclFilter = ANY_TOPIC) -> set[AclBinding]:
    answer = cluster.describe_acls(which)
    assert isinstance(answer, frozenset)
    return set(answer)


def those(cluster: Cluster, prefix: str) -> set[AclBinding]:
    return {each for each in found(cluster) if each.name.startswith(prefix)}


def test_acls_are_made_found_and_taken_away(cluster: Cluster, prefix: str) -> None:
    every = {
        acl(prefix),
        acl(prefix, "DESCRIBE_CONFIGS", "User:CN=Ö,O=x"),
        replace(acl(prefix), permission="DENY", host="10.0.0.1"),
        replace(acl(prefix + "o"), pattern="PREFIXED", operation="ALL"),
    }
    assert cluster.create_acls(every) == dict.fromkeys(every)
    await_until(lambda: those(cluster, prefix) == every)
    assert cluster.create_acls([acl(prefix)]) == {acl(prefix): None}, "again, and it is done"

    denied = found(cluster, AclFilter(name=prefix, pattern="LITERAL", permission="DENY"))
    assert denied == {replace(acl(prefix), permission="DENY", host="10.0.0.1")}
    bearing = found(cluster, AclFilter(name=prefix + "orders", pattern="MATCH"))
    assert bearing == {replace(acl(prefix + "o"), pattern="PREFIXED", operation="ALL")}

    left = acl(prefix)
    gone = every - {left}
    assert cluster.delete_acls(gone) == dict.fromkeys(gone)
    await_until(lambda: those(cluster, prefix) == {left})
    assert cluster.delete_acls(gone) == dict.fromkeys(gone), "again, and it is done"


def test_each_acl_has_its_own_error(cluster: Cluster, prefix: str) -> None:
    wrong = acl(prefix, principal="no type")
    results = cluster.create_acls([wrong, acl(prefix)])
    assert isinstance(results, dict)
    assert results[acl(prefix)] is None
    assert isinstance(results[wrong], BrokerError)
    assert "for no type from * on B" in str(results[wrong])


def test_acls_for_more_than_topics(cluster: Cluster, prefix: str) -> None:
    group = replace(acl(prefix), resource_type="GROUP")
    cluster.create_acls([group])
    await_until(lambda: found(cluster, AclFilter(resource_type="GROUP")) == {group})
    assert those(cluster, prefix) == set()


def test_many_are_sent_in_pieces(
    cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BINDINGS_A_REQUEST", 10)
    many = {acl(f"{prefix}{number}") for number in range(25)}
    assert cluster.create_acls(many) == dict.fromkeys(many)
    await_until(lambda: those(cluster, prefix) == many)


def test_who_may_not_is_told_what_to_ask_for(secured: SecuredCluster, prefix: str) -> None:
    settings = ClientSettings(
        alias="B",
        bootstrap=(("localhost", secured.port("SASL")),),
        protocol="SASL_PLAINTEXT",
        sasl=SaslSettings(mechanism="PLAIN", username=NOBODY, password=Secret(PASSWORD)),
    )
    with Cluster(settings) as nobody:
        with pytest.raises(AuthorizationError, match="DESCRIBE on the cluster"):
            nobody.describe_acls()
        for results in (nobody.create_acls([acl(prefix)]), nobody.delete_acls([acl(prefix)])):
            assert isinstance(results, dict)
            error = results[acl(prefix)]
            assert isinstance(error, AuthorizationError)
            assert "ALTER on the cluster" in str(error)


def test_a_cluster_without_an_authorizer_says_so(source_cluster: LocalCluster) -> None:
    host, _, port = source_cluster.bootstrap.partition(":")
    with Cluster(ClientSettings(alias="A", bootstrap=((host, int(port)),))) as cluster:
        disabled = SecurityDisabled(cluster="A")
        assert cluster.describe_acls() == disabled
        assert cluster.create_acls([acl("t")]) == disabled
        assert cluster.delete_acls([acl("t")]) == disabled
        assert cluster.create_acls([]) == {}
