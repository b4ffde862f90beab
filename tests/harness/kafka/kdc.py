"""A real Kerberos KDC (MIT krb5) on loopback, for one realm, without any right of the system's.

with Kdc(folder) as kdc:
    kdc.add("kafka/localhost")
    keytab = kdc.keytab("broker", "kafka/localhost")

`krb5_conf` is the file of its users; nothing here reads the system's own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from causeway.dev import LOOPBACK, Ports, Process, spawn
from causeway.errors import CausewayError
from tests.harness.waiting import await_until

PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
NO_CHANGE: Mapping[str, str] = {}
_PLACES = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))

# `clockskew` and lifetimes are small, so that tests need not wait for minutes.
_KRB5_CONF = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  udp_preference_limit = 1
  clockskew = {skew_s}
[realms]
  {realm} = {{
    kdc = {loopback}:{port}
  }}
[domain_realm]
  localhost = {realm}
"""
_KDC_CONF = """\
[kdcdefaults]
  kdc_listen = ""
  kdc_tcp_listen = {loopback}:{port}
[realms]
  {realm} = {{
    database_name = {folder}/principal
    key_stash_file = {folder}/stash
    acl_file = {folder}/kadm5.acl
    max_life = 1d
    max_renewable_life = 7d
    supported_enctypes = aes256-cts:normal
  }}
[logging]
  kdc = FILE:{folder}/kdc.log
  default = FILE:{folder}/kdc.log
"""


def require_kerberos() -> None:
    """Skips the test if the machine has no KDC, or this Python no `gssapi`."""
    if missing := [name for name in PROGRAMS if shutil.which(name, path=_PLACES) is None]:
        pytest.skip(f"no {', '.join(missing)}: install krb5-kdc, krb5-admin-server and krb5-user")
    pytest.importorskip(
        "gssapi", reason="no gssapi: install libkrb5-dev, then run make install again"
    )


def other_clock(offset: str) -> dict[str, str]:
    """The environment of a process whose clock is off by `offset`, such as `+1h`. Skips the test
    without libfaketime."""
    found = [*Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")]
    if not found:
        pytest.skip("no libfaketime: install faketime")
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME": offset,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


class Kdc:
    """Runs from `start` to `stop`; its principals stay."""

    def __init__(self, folder: Path, realm: str = "CAUSEWAY.TEST", *, skew_s: int = 300) -> None:
        self.folder = folder
        self.realm = realm
        self.ports = Ports()
        self.port = self.ports.take()
        self.krb5_conf = folder / "krb5.conf"
        self._process: Process | None = None
        folder.mkdir(parents=True, exist_ok=True)
        names = {"realm": realm, "folder": folder, "port": self.port, "loopback": LOOPBACK}
        self.krb5_conf.write_text(_KRB5_CONF.format(**names, skew_s=skew_s))
        (folder / "kdc.conf").write_text(_KDC_CONF.format(**names))
        self._run("kdb5_util", "create", "-s", "-r", realm, "-P", "master")

    def start(self, clock: Mapping[str, str] = NO_CHANGE) -> Self:
        """`clock`: what `other_clock` returns, for a KDC whose clock is off."""
        (self.folder / "kdc.log").unlink(missing_ok=True)
        self._process = spawn(
            [_program("krb5kdc"), "-n", "-r", self.realm],
            output=self.folder / "console.log",
            environment={**self.environment, **clock},
        )
        await_until(self._serves, 60, "the KDC serves")
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self.ports.release()

    def add(self, principal: str, *, life_s: int | None = None, renew_s: int | None = None) -> None:
        """A principal with a random key; its tickets live for `life_s` seconds at most."""
        life = [] if life_s is None else ["-maxlife", f'"{life_s} seconds"']
        life += [] if renew_s is None else ["-maxrenewlife", f'"{renew_s} seconds"']
        self._ask(f"addprinc -randkey {' '.join(life)} {principal}")

    def change_keys(self, principal: str) -> None:
        """Keytabs with its former keys open nothing any more."""
        self._ask(f"cpw -randkey {principal}")

    def remove(self, principal: str) -> None:
        self._ask(f"delprinc -force {principal}")

    def keytab(self, name: str, *principals: str) -> Path:
        """A new file with the keys of `principals`, which stay as they are."""
        path = self.folder / f"{name}.keytab"
        path.unlink(missing_ok=True)
        for principal in principals:
            self._ask(f"ktadd -norandkey -k {path} {principal}")
        return path

    def made_up_keytab(self, name: str, principal: str) -> Path:
        """A new file with a key that no KDC has."""
        path = self.folder / f"{name}.keytab"
        path.unlink(missing_ok=True)
        entry = f"addent -password -p {principal} -k 1 -e aes256-cts"
        self._run("ktutil", text=f"{entry}\nmade up\nwkt {path}\nq\n")
        return path

    def keytab_options(self, principal: str) -> str:
        """Of Java's login module, with a keytab of its own."""
        path = self.keytab(principal.replace("/", "-"), principal)
        login = f'keyTab="{path}" principal="{principal}@{self.realm}"'
        return f"useKeyTab=true storeKey=true {login}"

    def ticket_cache(self, name: str, principal: str, *options: str) -> Path:
        """A new file with a ticket of `principal`, as `kinit` with these options writes it."""
        path = self.folder / f"{name}.ccache"
        keytab = self.keytab(f"of-{name}", principal)
        self._run("kinit", *options, "-k", "-t", str(keytab), "-c", str(path), principal)
        return path

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
        }

    @property
    def log(self) -> str:
        return (self.folder / "kdc.log").read_text(errors="replace")

    def _ask(self, query: str) -> None:
        # It ends with 0 also if the query fails, and then says so.
        said = self._run("kadmin.local", "-r", self.realm, "-q", query)
        if "while" in said and "warn" not in said.lower():
            raise CausewayError("prepare", f"the realm {self.realm}", said.strip())

    def _run(self, program: str, *arguments: str, text: str = "") -> str:
        done = subprocess.run(
            [_program(program), *arguments],
            input=text,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CausewayError("run", program, (done.stderr or done.stdout).strip())
        return done.stderr

    def _serves(self) -> bool:
        if self._process is None or not self._process.alive():
            raise CausewayError("start", "the KDC", (self.folder / "console.log").read_text())
        log = self.folder / "kdc.log"
        return log.exists() and "commencing operation" in self.log


def _program(name: str) -> str:
    found = shutil.which(name, path=_PLACES)
    assert found is not None, name
    return found
