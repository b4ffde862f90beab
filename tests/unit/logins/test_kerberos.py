"""Names of brokers as in Java, and principals without a realm. No KDC is asked."""

from __future__ import annotations

import socket

import pytest

from causeway.logins import kerberos

NAMES = {
    "bunny": "bunny.rabbit.hole",
    "broker.example.com": "ip-10-0-0-7.cloud.internal",
    "10.0.0.7": "broker.example.com",
}


@pytest.fixture(autouse=True)
def _dns(monkeypatch: pytest.MonkeyPatch) -> None:
    def canonical(host: str) -> tuple[str, list[str], list[str]]:
        if host not in NAMES:
            raise socket.gaierror(8, "unknown")
        return NAMES[host], [], []

    def addresses(host: str, *_: object, **__: object) -> list[object]:
        return [(0, 0, 0, "", (host, 0))]

    monkeypatch.setattr(socket, "gethostbyaddr", canonical)
    monkeypatch.setattr(socket, "getaddrinfo", addresses)


@pytest.mark.parametrize(
    ("host", "krb5_conf", "name"),
    [
        ("bunny", "", "bunny.rabbit.hole"),  # a longer form of the same name
        ("Bunny", "[libdefaults]\n dns_canonicalize_hostname = false\n", "bunny"),
        ("broker.example.com", "", "broker.example.com"),  # reverse DNS has another name
        ("Broker.Example.COM", "", "broker.example.com"),
        ("unknown.example.com", "", "unknown.example.com"),
        ("10.0.0.7", "", "broker.example.com"),
        ("10.0.0.8", "", "10.0.0.8"),
    ],
)
def test_the_name_of_a_broker(host: str, krb5_conf: str, name: str) -> None:
    assert kerberos.service_host(host, krb5_conf) == name


@pytest.mark.parametrize(
    ("principal", "expected"),
    [
        ("ann", "ann@EAST.EXAMPLE"),
        ("ann/mirror", "ann/mirror@EAST.EXAMPLE"),
        ("ann@WEST.EXAMPLE", "ann@WEST.EXAMPLE"),
        (None, None),
    ],
)
def test_a_principal_without_its_realm(principal: str | None, expected: str | None) -> None:
    """It is of the default realm of its own file, whatever other clusters have."""
    conf = "[libdefaults]\n  default_realm = EAST.EXAMPLE\n"
    assert kerberos.with_realm(principal, conf) == expected
    assert kerberos.with_realm(principal, "") == principal
