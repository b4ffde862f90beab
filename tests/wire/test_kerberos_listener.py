"""A real broker and a real KDC: the ways in, tickets that end, and the error of each wrong way."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from causeway.cluster import Cluster
from causeway.config import (
    ClientSettings,
    KerberosSettings,
    SaslSettings,
    Secret,
    TicketRenewal,
    to_wire,
)
from causeway.dev import Ports
from causeway.errors import AuthenticationError, CausewayError, UnreachableError
from causeway.logins import ticket_cache
from causeway.logins.kerberos import KerberosMechanism
from causeway.wire import Connection
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka.kdc import Kdc, other_clock, require_kerberos
from tests.harness.kafka.security import Security
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration
SESSION_MS = 3_000
LIFE_S = 4
RENEWED_LIFE_S = 10


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    require_kerberos()
    with Kdc(tmp_path_factory.mktemp("kdc"), skew_s=1) as kdc:
        for principal in ("kafka/localhost", "causeway"):
            kdc.add(principal)
        kdc.add("hasty", life_s=LIFE_S)
        kdc.add("lasting", life_s=RENEWED_LIFE_S)
        kdc.add("ending", life_s=RENEWED_LIFE_S, renew_s=RENEWED_LIFE_S)
        yield kdc


@pytest.fixture(scope="module")
def broker(kdc: Kdc) -> Iterator[LocalCluster]:
    """Only these users may do something there, so the broker knows them by name."""
    security = Security(
        protocol="SASL_PLAINTEXT",
        mechanisms=("GSSAPI",),
        kdc=kdc,
        acl=True,
        super_users=("causeway", "hasty", "lasting", "ending"),
    )
    properties = {"listener.name.client.gssapi.connections.max.reauth.ms": str(SESSION_MS)}
    with LocalCluster("K", security=security, properties=properties) as cluster:
        yield cluster


def settings(broker: LocalCluster, kerberos: KerberosSettings) -> ClientSettings:
    host, port = broker.bootstrap.rsplit(":", 1)
    return ClientSettings(
        alias="K",
        bootstrap=((host, int(port)),),
        protocol="SASL_PLAINTEXT",
        sasl=SaslSettings(mechanism="GSSAPI", kerberos=kerberos),
    )


def content(path: Path) -> Secret:
    return Secret(base64.b64encode(path.read_bytes()).decode())


def login(kdc: Kdc, principal: str = "causeway") -> KerberosSettings:
    return KerberosSettings(
        service="kafka",
        principal=f"{principal}@{kdc.realm}",
        keytab=content(kdc.keytab(f"client-{principal}", principal)),
        krb5_conf=kdc.krb5_conf.read_text(),
    )


def enter(client: ClientSettings) -> None:
    with Cluster(client) as cluster:
        cluster.bootstrap_check()
        assert cluster.broker_configs(1)


def refused(client: ClientSettings) -> str | None:
    """Why the client is refused, if it is."""
    try:
        enter(client)
    except AuthenticationError as error:
        return error.cause
    return None


def refusal(client: ClientSettings) -> CausewayError:
    with pytest.raises(CausewayError) as refused:
        Connection.open(client, *client.bootstrap[0])
    secret = client.sasl.kerberos.keytab.reveal() if client.sasl and client.sasl.kerberos else ""
    assert not secret or secret not in str(refused.value)
    assert "\n" not in str(refused.value)
    return refused.value


def test_by_a_keytab(kdc: Kdc, broker: LocalCluster) -> None:
    enter(settings(broker, login(kdc)))


def test_by_a_principal_without_its_realm(kdc: Kdc, broker: LocalCluster) -> None:
    enter(settings(broker, replace(login(kdc), principal="causeway")))


def test_by_a_ticket_cache(kdc: Kdc, broker: LocalCluster) -> None:
    cache = content(kdc.ticket_cache("mine", "causeway"))
    tickets = replace(login(kdc), keytab=Secret(""), ticket_cache=cache)
    enter(settings(broker, tickets))
    enter(settings(broker, replace(tickets, principal=None)))


def test_tickets_are_renewed_before_they_end(kdc: Kdc, broker: LocalCluster) -> None:
    """Connections are opened for three lives of a ticket."""
    client = settings(broker, login(kdc, "hasty"))
    before = kdc.log.count("hasty@CAUSEWAY.TEST for krbtgt")
    end = time.monotonic() + 3 * LIFE_S
    while time.monotonic() < end:
        enter(client)
        time.sleep(0.3)
    assert kdc.log.count("hasty@CAUSEWAY.TEST for krbtgt") >= before + 3


def test_logins_share_a_ticket(kdc: Kdc, broker: LocalCluster) -> None:
    kdc.add("thrifty")
    client = settings(broker, login(kdc, "thrifty"))
    for _ in range(5):
        Connection.open(client, *client.bootstrap[0]).close()
    assert kdc.log.count("thrifty@CAUSEWAY.TEST for krbtgt") == 1
    assert kdc.log.count("thrifty@CAUSEWAY.TEST for kafka/localhost") == 1


def test_a_ticket_cache_that_has_ended(kdc: Kdc, broker: LocalCluster) -> None:
    cache = content(kdc.ticket_cache("ended", "hasty"))
    client = settings(broker, replace(login(kdc, "hasty"), keytab=Secret(""), ticket_cache=cache))
    enter(client)
    assert "expired" in await_until(partial(refused, client), 60, "the ticket has ended").lower()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tickets are looked at as soon as a client has logged in."""
    monkeypatch.setattr(ticket_cache, "_FIRST_S", 0.0)


def by_cache(kdc: Kdc, principal: str, path: Path) -> KerberosSettings:
    """A login of a process that has the file of the ticket cache."""
    kinit = shutil.which("kinit") or ""
    renewal = TicketRenewal(path=str(path), command=kinit, window=0.3, jitter=0, least_ms=500)
    by_key = login(kdc, principal)
    return replace(by_key, keytab=Secret(""), ticket_cache=content(path), renewal=renewal)


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_the_ticket_of_a_ticket_cache_is_renewed(kdc: Kdc, broker: LocalCluster) -> None:
    """The settings have the first ticket only. Its file has a new one before it expires."""
    path = kdc.ticket_cache("lasting", "lasting", "-r", "1h")
    first = ticket_cache.ticket_of(path.read_bytes())
    client = settings(broker, by_cache(kdc, "lasting", path))

    def has_a_later_ticket() -> bool:
        enter(client)
        return ticket_cache.ticket_of(path.read_bytes()).start > first.end

    await_until(has_a_later_ticket, 6 * RENEWED_LIFE_S, "the ticket was renewed after the first")
    enter(client)


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_a_ticket_past_its_renewable_life_is_used_until_it_expires(
    kdc: Kdc, broker: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    path = kdc.ticket_cache("ending", "ending", "-r", "1h")
    client = settings(broker, by_cache(kdc, "ending", path))
    enter(client)
    cause = await_until(partial(refused, client), 6 * RENEWED_LIFE_S, "the ticket has expired")
    assert "expired" in cause.lower()
    assert time.time() >= ticket_cache.ticket_of(path.read_bytes()).end
    (warning,) = (each for each in caplog.messages if "ticket" in each)
    assert warning.startswith("renew the ticket of K's ticket cache: it expires at ")
    assert "run kinit again" in warning
    kdc.ticket_cache("ending", "ending")
    enter(client)  # with the new ticket of the file


def test_a_session_outlives_its_limit_by_authenticating_again(
    kdc: Kdc, broker: LocalCluster
) -> None:
    client = settings(broker, login(kdc))
    with Connection.open(client, *client.bootstrap[0]) as connection:
        first = connection.session_expires_at
        assert first is not None
        assert 0 < first - time.monotonic() <= SESSION_MS / 1000
        time.sleep(max(0.0, first - time.monotonic()))
        connection.reauthenticate()
        assert (connection.session_expires_at or 0) > first
        time.sleep(1)  # past the end of the first session
        connection.call(MetadataRequest(topics=[]))


def conversation(kdc: Kdc) -> tuple[KerberosMechanism, Any]:
    """A client, and a broker of the test's own with the broker's keytab, up to mutual proof."""
    import gssapi

    keytab = f"FILE:{kdc.keytab('acceptor', 'kafka/localhost')}"
    own = gssapi.Credentials(usage="accept", store={"keytab": keytab})
    peer = gssapi.SecurityContext(creds=own, usage="accept")
    client = KerberosMechanism(login(kdc), "K", "localhost", 20)
    client.receive(peer.step(client.auth_bytes()))
    assert client.auth_bytes() == b""
    return client, peer


def test_the_client_takes_no_security_layer(kdc: Kdc) -> None:
    client, peer = conversation(kdc)
    client.receive(peer.wrap(bytes((7, 0, 255, 255)), False).message)
    answer = peer.unwrap(client.auth_bytes()).message
    assert answer == bytes((1, 0, 0, 0)) + b"causeway@CAUSEWAY.TEST"
    assert not client.is_authenticated()
    client.receive(b"")
    assert client.is_done()
    assert client.is_authenticated()
    with pytest.raises(ValueError, match="over"):
        client.receive(b"more")


@pytest.mark.parametrize("offer", [(6, 0, 255, 255), (1,), ()])
def test_a_broker_that_wants_a_security_layer(kdc: Kdc, offer: tuple[int, ...]) -> None:
    client, peer = conversation(kdc)
    with pytest.raises(ValueError, match="security layer"):
        client.receive(peer.wrap(bytes(offer), False).message)


def test_a_broker_that_cannot_prove_who_it_is(kdc: Kdc) -> None:
    for nonsense in (b"", b"nonsense"):
        client = KerberosMechanism(login(kdc), "K", "localhost", 20)
        with pytest.raises(AuthenticationError, match="does not prove who it is"):
            client.receive(nonsense)
        assert not client.is_authenticated()
    client, _ = conversation(kdc)
    with pytest.raises(AuthenticationError, match="does not prove who it is"):
        client.receive(b"not wrapped")


def test_wrong_logins(kdc: Kdc, broker: LocalCluster) -> None:
    kdc.add("other")
    right = login(kdc)
    cases = [
        (replace(right, principal="stranger"), "the keytab has no key of stranger"),
        (replace(right, service="kafak"), "kafak/localhost@CAUSEWAY.TEST not found"),
        (
            replace(right, keytab=Secret(base64.b64encode(b"no keytab").decode())),
            "has no key of causeway",
        ),
        (
            replace(right, principal=None, keytab=Secret(""), ticket_cache=content(kdc.krb5_conf)),
            "cache",
        ),
    ]
    for kerberos, says in cases:
        error = refusal(settings(broker, kerberos))
        assert isinstance(error, AuthenticationError), error
        assert says in str(error)
        assert "sasl.jaas.config" in error.remedy

    removed = login(kdc, "other")
    kdc.remove("other")
    error = refusal(settings(broker, removed))
    assert isinstance(error, AuthenticationError)
    assert "not found in Kerberos database" in str(error)


def test_keys_that_were_changed(kdc: Kdc, broker: LocalCluster) -> None:
    kdc.add("renewed")
    old = login(kdc, "renewed")
    kdc.change_keys("renewed")
    assert isinstance(refusal(settings(broker, old)), AuthenticationError)
    Connection.open(settings(broker, login(kdc, "renewed")), *settings(broker, old).bootstrap[0])


def away(kdc: Kdc, port: int) -> KerberosSettings:
    """A login in another realm, with its KDC at `port`."""
    conf = kdc.krb5_conf.read_text().replace(str(kdc.port), str(port))
    realm = f"AWAY{port}.TEST"  # the library keeps what it was given before
    return KerberosSettings(
        service="kafka",
        principal=f"causeway@{realm}",
        keytab=content(kdc.made_up_keytab("away", f"causeway@{realm}")),
        krb5_conf=conf.replace(kdc.realm, realm).partition("[domain_realm]")[0],
    )


def test_a_kdc_that_is_not_there_and_one_that_does_not_answer(
    kdc: Kdc, broker: LocalCluster
) -> None:
    """The library would wait for a silent KDC for half a minute, and longer for several."""
    ports = Ports()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (ports.take(), silent.getsockname()[1]):
            client = replace(settings(broker, away(kdc, port)), connect_timeout_ms=2_000)
            began = time.monotonic()
            error = refusal(client)
            assert time.monotonic() - began < 20
            assert isinstance(error, UnreachableError), error
            assert error.retriable
            assert "causeway.krb5.conf" in error.remedy
        assert "no answer within" in error.cause
        enter(settings(broker, login(kdc)))  # a login that waits does not delay others
    ports.release()


def test_a_user_without_rights(kdc: Kdc, broker: LocalCluster) -> None:
    kdc.add("nobody")
    with Cluster(settings(broker, login(kdc, "nobody"))) as cluster:
        assert cluster.describe_configs(["x"])["x"] is not None


_ENTER = """
import json, sys
from causeway.config import from_wire
from causeway.wire import Connection
for each in json.load(sys.stdin):
    client = from_wire(each)
    Connection.open(client, *client.bootstrap[0]).close()
"""


def enter_elsewhere(
    clients: Sequence[ClientSettings], environment: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Each client opens a connection, all in one new process."""
    ended = subprocess.run(
        [sys.executable, "-c", _ENTER],
        input=json.dumps([to_wire(client) for client in clients]),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_a_client_whose_clock_is_off(kdc: Kdc, broker: LocalCluster) -> None:
    """The library takes the time of the KDC."""
    for offset in ("+1h", "-1h"):
        enter_elsewhere([settings(broker, login(kdc))], other_clock(offset))


def test_a_kdc_and_a_broker_with_different_clocks(kdc: Kdc, broker: LocalCluster) -> None:
    kdc.add("early")
    client = settings(broker, login(kdc, "early"))
    kdc.stop()
    kdc.start(other_clock("+1h"))
    try:
        error = refusal(client)
    finally:
        kdc.stop()
        kdc.start()
    assert isinstance(error, AuthenticationError)
    assert "GSSAPI refused" in error.cause
    assert "clocks" in error.remedy


def test_two_realms_in_one_process(kdc: Kdc, broker: LocalCluster, tmp_path: Path) -> None:
    """Each cluster has a KDC and a krb5.conf of its own, and both files name another default realm.
    Neither maps hosts to realms: here all hosts are localhost."""
    with Kdc(tmp_path / "west", realm="WEST.TEST") as west:
        for principal in ("kafka/localhost", "causeway"):
            west.add(principal)
        security = Security(protocol="SASL_PLAINTEXT", mechanisms=("GSSAPI",), kdc=west)
        with LocalCluster("W", security=security) as other:
            clients = []
            for where, issuer in ((broker, kdc), (other, west)):
                mine = login(issuer)
                conf = mine.krb5_conf.partition("[domain_realm]")[0]
                mine = replace(mine, principal="causeway", krb5_conf=conf)
                clients.append(settings(where, mine))
            enter_elsewhere([*clients, *clients])


def test_after_a_restart_of_the_broker(kdc: Kdc, broker: LocalCluster) -> None:
    client = settings(broker, login(kdc))
    with Cluster(client) as cluster:
        cluster.bootstrap_check()
        broker.restart()
        cluster.bootstrap_check()
        assert cluster.broker_configs(1)
