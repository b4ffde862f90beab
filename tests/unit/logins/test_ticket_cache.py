"""The ticket of a ticket cache: its times, when it is renewed, and the warning if it cannot be.

A shell script takes the place of kinit. No KDC is asked."""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest

from causeway.config import KerberosSettings, Secret, TicketRenewal
from causeway.logins import ticket_cache
from causeway.logins.ticket_cache import Ticket, TicketRenewer, ticket_of, with_newest_tickets

NOW = 1_700_000_000
LIFE_S = 1_000
RENEWABLE, OTHER = 0x00800000, 0x40000000


def data(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def principal(*parts: bytes) -> bytes:
    """Realm first."""
    return struct.pack(">II", 1, len(parts) - 1) + b"".join(map(data, parts))


def ticket(server: bytes, times: tuple[int, int, int, int], flags: int, version: int = 4) -> bytes:
    kind = struct.pack(">H", 18) * (5 - version)
    address = struct.pack(">IH", 1, 2) + data(b"\x7f\0\0\1")
    return (
        principal(b"R", b"ann")
        + server
        + kind
        + data(b"k" * 32)
        + struct.pack(">4IBI", *times, 0, flags)
        + address
        + struct.pack(">I", 0)
        + data(b"the ticket")
        + data(b"")
    )


KDC, OTHER_KDC = principal(b"R", b"krbtgt", b"R"), principal(b"R", b"krbtgt", b"EAST")
CONFIG = principal(b"X-CACHECONF:", b"krb5_ccache_conf_data", b"pa_type")


def cache(
    start: int = NOW, renew_for_s: int = 10 * LIFE_S, flags: int = RENEWABLE | OTHER
) -> bytes:
    times = start, start, start + LIFE_S, start + renew_for_s
    return (
        b"\x05\x04\x00\x0c\x00\x01\x00\x08" + bytes(8) + principal(b"R", b"ann")
        + ticket(CONFIG, (0, 0, 0, 0), 0)
        + ticket(OTHER_KDC, (1, 1, 1, 1), flags)
        + ticket(KDC, times, flags)
    )  # fmt: skip


def test_the_ticket_in_a_file_of_each_version() -> None:
    assert ticket_of(cache()) == Ticket(NOW, NOW + LIFE_S, NOW + 10 * LIFE_S)
    assert ticket_of(cache(flags=OTHER)) == Ticket(NOW, NOW + LIFE_S, 0)
    never_renewed = NOW, 0, NOW + LIFE_S, 0
    of_java = b"\x05\x03" + principal(b"R", b"ann") + ticket(KDC, never_renewed, 0, version=3)
    assert ticket_of(of_java) == Ticket(NOW, NOW + LIFE_S, 0)


def test_a_file_that_is_not_whole_has_no_ticket() -> None:
    whole = cache()
    for length in range(len(whole)):
        with pytest.raises(ValueError, match=r"no ticket|not a ticket cache"):
            ticket_of(whole[:length])
    with pytest.raises(ValueError, match="not a ticket cache"):
        ticket_of(b"[libdefaults]\n")


@dataclass
class Machine:
    """`file`: the ticket cache; `calls`: how kinit was run; `now`: the time."""

    file: Path
    kinit: Path
    calls: Path
    now: float = NOW

    def renewer(self, **settings: float) -> TicketRenewer:
        given = {"window": 0.8, "jitter": 0.0, **settings}
        renewal = TicketRenewal(path=str(self.file), command=str(self.kinit), **given)  # type: ignore[arg-type]
        return TicketRenewer(renewal, "A")

    def gives(self, content: bytes) -> None:
        """kinit writes `content` from now on."""
        new = self.file.with_name("new")
        new.write_bytes(content)
        self._script(f'cp "{new}" "${{KRB5CCNAME#FILE:}}"')

    def fails(self, said: str) -> None:
        self._script(f'echo "{said}" >&2; exit 1')

    def _script(self, line: str) -> None:
        self.kinit.write_text(f'#!/bin/sh\necho "$* $KRB5CCNAME" >> "{self.calls}"\n{line}\n')
        self.kinit.chmod(0o700)

    @property
    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path / "cache", tmp_path / "kinit", tmp_path / "calls")
    machine.file.write_bytes(cache())
    machine.gives(cache(NOW + 800))
    monkeypatch.setattr(ticket_cache.time, "time", lambda: machine.now)
    return machine


def test_it_is_renewed_when_the_share_of_its_life_is_over(machine: Machine) -> None:
    renewer = machine.renewer()
    assert renewer.turn() == 800
    machine.now += 799
    assert renewer.turn() == 1
    assert machine.called == []
    machine.now += 1
    renewer.turn()
    assert machine.called == [f"-R FILE:{machine.file}"]
    assert renewer.turn() == 800, "the new one lives as long"
    assert len(machine.called) == 1


def test_jitter_delays_the_renewal(machine: Machine) -> None:
    turns = {machine.renewer(jitter=0.1).turn() for _ in range(20)}
    assert len(turns) > 1
    assert all(800 <= turn <= 900 for turn in turns)


def test_a_ticket_is_renewed_before_its_end_whatever_its_share(machine: Machine) -> None:
    renewer = machine.renewer(window=1.0, jitter=1.0)
    assert renewer.turn() == 950
    machine.now += 950
    renewer.turn()
    assert len(machine.called) == 1


def test_attempts_without_a_pause_by_the_settings_have_one(machine: Machine) -> None:
    renewer = machine.renewer(least_ms=0)
    machine.fails("kinit: no KDC")
    machine.now += 800
    for seconds, calls in ((0, 1), (0, 1), (4, 1), (1, 2)):
        machine.now += seconds
        renewer.turn()
        assert len(machine.called) == calls, machine.now


def test_a_ticket_that_another_program_renewed_is_left_alone(machine: Machine) -> None:
    renewer = machine.renewer()
    machine.now += 900
    machine.file.write_bytes(cache(NOW + 800))
    assert renewer.turn() == 700
    assert machine.called == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (cache(flags=OTHER), "it is not renewable"),
        (cache(renew_for_s=LIFE_S), "its renewable life is over then"),
    ],
)
def test_a_ticket_that_cannot_be_renewed_gets_one_warning(
    machine: Machine, caplog: pytest.LogCaptureFixture, content: bytes, why: str
) -> None:
    machine.file.write_bytes(content)
    renewer = machine.renewer()
    for _ in range(3):
        machine.now += 300
        renewer.turn()
    assert machine.called == []
    assert caplog.messages == [
        "renew the ticket of A's ticket cache: it expires at 2023-11-14 22:30:00 UTC, and"
        f" {why} (run kinit again before then (kinit -r LIFE for a renewable ticket), or use a"
        " keytab)"
    ]
    machine.file.write_bytes(cache(NOW + 900, flags=OTHER))
    renewer.turn()
    assert len(caplog.messages) == 2, "another ticket"


def test_a_renewal_that_fails_is_tried_again_until_the_ticket_expires(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    renewer = machine.renewer(least_ms=60_000)
    machine.fails(f"kinit: no KDC (filename: {machine.file})\nmore")
    machine.now += 800
    for seconds, calls in ((0, 1), (59, 1), (1, 2), (60, 3), (59, 3), (1, 4), (4, 4), (1, 5)):
        machine.now += seconds
        renewer.turn()
        assert len(machine.called) == calls, machine.now
    (warning,) = caplog.messages
    assert "kinit: no KDC; it expires at" in warning
    assert "sasl.kerberos.kinit.cmd" in warning
    assert str(machine.file) not in warning
    machine.now = NOW + LIFE_S
    renewer.turn()
    assert len(machine.called) == 5
    machine.file.write_bytes(cache(NOW + LIFE_S))
    machine.now += 800
    renewer.turn()
    assert len(machine.called) == 6
    assert len(caplog.messages) == 1


def test_a_renewal_that_another_process_was_quicker_with(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """kinit may then find the file half written."""
    machine.gives(cache(NOW + 800))
    machine.kinit.write_text(machine.kinit.read_text() + "exit 1\n")
    machine.now += 800
    renewer = machine.renewer()
    renewer.turn()
    assert renewer.turn() == 800
    assert len(machine.called) == 1
    assert caplog.messages == []


def test_a_program_that_is_not_there(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.kinit.unlink()
    machine.now += 800
    machine.renewer().turn()
    (warning,) = caplog.messages
    assert "kinit cannot be run: no such file" in warning


def test_a_login_takes_the_newest_tickets_of_the_file(machine: Machine) -> None:
    old = Secret(base64.b64encode(b"old").decode())
    settings = KerberosSettings(
        service="kafka", ticket_cache=old, renewal=TicketRenewal(path=str(machine.file))
    )
    found = with_newest_tickets(settings, "A")
    assert base64.b64decode(found.ticket_cache.reveal()) == cache()
    machine.file.write_bytes(cache()[:-1])  # another program is writing
    assert with_newest_tickets(settings, "A").ticket_cache == old
    machine.file.unlink()
    assert with_newest_tickets(settings, "A").ticket_cache == old
