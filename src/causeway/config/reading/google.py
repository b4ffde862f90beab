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
from causeway.config.values import Secret
from causeway.errors import ConfigError, PrerequisiteError

_NAMED = "GOOGLE_APPLICATION_CREDENTIALS"
_KINDS = (
    "service_account",
    "impersonated_service_account",
    "external_account",
    "authorized_user",
)


def google_settings() -> GoogleSettings:
    """Raises ConfigError if the credentials cannot be read, PrerequisiteError if the package that
    uses them is not installed."""
    if not is_installed():
        raise PrerequisiteError(
            "log in by",
            "GcpLoginCallbackHandler",
            "the package google-auth is not installed",
            remedy="pip install 'causeway[gcp]'",
        )
    named = os.environ.get(_NAMED)
    path = Path(named) if named else _of_gcloud()
    if not named and not path.exists():
        return GoogleSettings()
    try:
        kind = json.loads(text := read_file(path).decode()).get("type")
    except (ValueError, AttributeError, RecursionError):
        kind = None
    if kind not in _KINDS:
        known = ", ".join(_KINDS)
        raise ConfigError("read", str(path), f"it is not a credentials file of Google: {known}")
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
