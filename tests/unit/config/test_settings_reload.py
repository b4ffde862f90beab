"""Settings are read again once a file has changed that they rest on; certificates are looked at."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from causeway.config import Settings
from causeway.config.reading import Expiry, clients_of, expiries, expiry_warnings
from causeway.formats import load
from tests.harness.config_files import mirror, write


def password(settings: Settings) -> str:
    sasl = settings.links[0].source.sasl
    assert sasl is not None
    return sasl.password.reveal()


def test_each_file_that_settings_rest_on_is_watched(tmp_path: Path) -> None:
    settings = load(mirror(tmp_path))
    again = settings.rereading
    assert again is not None
    assert {path.name for path in again.files} == {
        "mm2.properties",
        "more.properties",
        "password",
        "ca.pem",
        "own.pem",
    }
    assert not again.stale
    write(tmp_path / "password", "other")  # as long as before
    assert again.stale
    found = again.read()
    assert (password(settings), password(found)) == ("first", "other")
    assert found.rereading is not None
    assert not found.rereading.stale
    (tmp_path / "ca.pem").unlink()
    assert found.rereading.stale


def test_certificates_are_warned_of_before_they_expire(tmp_path: Path) -> None:
    """Those that the tests make are good for a day."""
    settings = load(mirror(tmp_path))
    found = expiries(clients_of(settings).values())
    assert [(each.cluster, each.which) for each in found] == [("A", "client"), ("A", "trusted")]
    left = [each.at - datetime.now(UTC) for each in found]
    assert all(timedelta(hours=20) < each < timedelta(hours=25) for each in left)
    own, trusted = expiry_warnings(settings)
    assert own.startswith("the client certificate for cluster A expires on 20")
    assert trusted.startswith("the trust store for cluster A expires on 20")


def test_two_weeks_are_soon() -> None:
    at = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    expiry = Expiry("A", "client", at)
    assert expiry.warning(at - timedelta(days=15)) is None
    assert expiry.warning(at - timedelta(days=13)) == (
        "the client certificate for cluster A expires on 2026-03-01 12:30 UTC: renew it"
    )
    assert "expired on 2026-03-01" in (expiry.warning(at + timedelta(days=1)) or "")
