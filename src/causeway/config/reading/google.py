"""Reads the login of Google's handler for Java clients: `GcpLoginCallbackHandler`.

Google calls its rule for the credentials of a program "application default credentials": the file
that GOOGLE_APPLICATION_CREDENTIALS names, else the file of the gcloud command, else the metadata
server of the machine.
"""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

from causeway.config.entries import read_file
from causeway.config.logins import GoogleSettings
from causeway.config.reading.client_reader import ClientReader
from causeway.config.values import Secret
from causeway.errors import ConfigError
from causeway.extras import install_extra

_NAMED = "GOOGLE_APPLICATION_CREDENTIALS"
_KINDS = (
    "service_account",
    "impersonated_service_account",
    "external_account",
    "authorized_user",
)


def google_settings(reader: ClientReader, key: str) -> GoogleSettings | None:
    """Returns the credentials for the login handler that `key` names. None after a problem, which
    goes to the reader's problems."""
    if not is_installed():
        reader.refuse(key, f"Google's logins need the package google-auth: {install_extra('gcp')}")
        return None
    named = os.environ.get(_NAMED)
    path = Path(named) if named else _of_gcloud()
    if not named and not path.exists():
        return GoogleSettings()
    source = _NAMED if named else "gcloud's file"
    try:
        kind = json.loads(text := read_file(path).decode()).get("type")
    except ConfigError as error:
        reader.refuse(key, f"{source}: {error}")
        return None
    except (ValueError, AttributeError, RecursionError):
        kind = None
    if kind not in _KINDS:
        known = ", ".join(_KINDS)
        reader.refuse(key, f"{source}: {path} is not a credentials file of Google: {known}")
        return None
    return GoogleSettings(credentials=Secret(text))


def is_installed() -> bool:
    try:
        return find_spec("google.auth") is not None
    except ModuleNotFoundError:  # no package `google` at all
        return False


def _of_gcloud() -> Path:
    folder = os.environ.get("CLOUDSDK_CONFIG")
    start = Path(folder) if folder else Path.home() / ".config" / "gcloud"
    return start / "application_default_credentials.json"
