"""Delegation tokens of real brokers, by Kafka's own command. Only a user who is logged in by
another way may ask for one."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from causeway.java import find_java
from tests.harness.kafka.jars import connect_classpath

_COMMAND = "org.apache.kafka.tools.DelegationTokenCommand"


class DelegationToken(NamedTuple):
    """The id is the user name of a login by SCRAM, the HMAC its password."""

    id: str
    hmac: str


def create_token(
    bootstrap: str, client: Mapping[str, str], *, lifetime_ms: int = -1
) -> DelegationToken:
    """`client`: the properties of the user. -1: the broker's own lifetime."""
    printed = _run(bootstrap, client, "--create", "--max-life-time-period", str(lifetime_ms))
    (line,) = (line for line in printed.splitlines() if "User:" in line)
    token_id, hmac = line.split()[:2]
    return DelegationToken(token_id, hmac)


def expire_token(bootstrap: str, client: Mapping[str, str], token: DelegationToken) -> None:
    _run(bootstrap, client, "--expire", "--expiry-time-period", "-1", "--hmac", token.hmac)


def _run(bootstrap: str, client: Mapping[str, str], *arguments: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "client.properties"
        lines = (f"{key}={value}".replace("\\", "\\\\") for key, value in client.items())
        file.write_text("\n".join(lines), encoding="latin-1")
        command = [str(find_java()), "-cp", connect_classpath(), _COMMAND, *arguments]
        found = subprocess.run(
            [*command, "--bootstrap-server", bootstrap, "--command-config", str(file)],
            check=True,
            capture_output=True,
            text=True,
        )
    return found.stdout
