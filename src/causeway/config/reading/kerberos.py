"""Reads a Kerberos login: the options of Krb5LoginModule, the keys beside them, and the files that
they name."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from causeway.config.entries import note, read_file
from causeway.config.logins import RENEWAL_KEYS, KerberosSettings, TicketRenewal
from causeway.config.reading.client_reader import ClientReader
from causeway.config.reading.kafka_opts import file_path, java_option
from causeway.config.reading.login import unsupported_options
from causeway.config.values import Secret
from causeway.errors import ConfigError, PrerequisiteError
from causeway.extras import install_kerberos

KRB5_CONF: Final = "causeway.krb5.conf"
SERVICE_NAME: Final = "sasl.kerberos.service.name"
_JAAS: Final = "sasl.jaas.config"
_KNOWN_OPTIONS: Final = frozenset(
    (
        *("useKeyTab", "keyTab", "useTicketCache", "ticketCache", "principal", "serviceName"),
        # How Java's module asks a person, keeps keys and tickets, or logs: no meaning for us.
        *("storeKey", "doNotPrompt", "renewTGT", "isInitiator", "refreshKrb5Config", "debug"),
        *("useFirstPass", "tryFirstPass", "storePass", "clearPass", "useSubjectCredsOnly"),
    )
)
_KRB5_CONFIG: Final = os.environ.get("KRB5_CONFIG")  # the first login of a process changes it
_INCLUDE: Final = re.compile(r"(include|includedir)\s+(\S+)\s*")
_SECTION: Final = re.compile(r"\s*\[[^\]]+\]")
_INCLUDED: Final = re.compile(r"[\w-]+|[^.].*\.conf", re.ASCII)
_MOST_INCLUDES: Final = 10  # one in another


def kerberos_settings(reader: ClientReader, options: Mapping[str, str]) -> KerberosSettings | None:
    """Returns the login that the options of Krb5LoginModule describe. None after a problem, which
    goes to the reader's problems. Raises PrerequisiteError if this Python has no Kerberos."""
    _require_library()
    if unknown := options.keys() - _KNOWN_OPTIONS:
        reader.refuse(_JAAS, unsupported_options(unknown))
        return None
    service = _service(reader, options)
    found = _key_or_ticket(reader, options)
    key, conf = KRB5_CONF, ""
    try:
        conf = _krb5_conf(reader.text(key))
    except ConfigError as error:
        reader.refuse(key, error)
        return None
    if service is None or found is None:
        return None
    return KerberosSettings(
        service=service,
        principal=options.get("principal") or None,
        krb5_conf=conf,
        **found,
    )


def _require_library() -> None:
    """Refuses a file with Kerberos when the file is read, and not only when a lane connects."""
    try:
        import gssapi  # noqa: F401 - slow to load, and few need it
    except (ImportError, OSError) as error:
        raise PrerequisiteError(
            "log in by",
            "GSSAPI (Kerberos)",
            f"the package gssapi cannot be used: {error}",
            remedy=install_kerberos(),
        ) from None


def _service(reader: ClientReader, options: Mapping[str, str]) -> str | None:
    here, there = options.get("serviceName"), reader.text(SERVICE_NAME)
    if here and there and here != there:
        reader.refuse(SERVICE_NAME, "serviceName in the login module says another name")
    elif not (here or there):
        reader.missing(SERVICE_NAME, "GSSAPI needs the first part of the brokers' principals")
    return there or here


def _key_or_ticket(reader: ClientReader, options: Mapping[str, str]) -> dict[str, Any] | None:
    """Returns the content of the keytab or, without a keytab, of the ticket cache, and its renewal.
    None after a problem, which goes to the reader's problems."""
    if _is_on(options, "useKeyTab"):
        if missing := [name for name in ("keyTab", "principal") if not options.get(name)]:
            reader.refuse(_JAAS, f"useKeyTab needs {' and '.join(missing)} in the login module")
            return None
        kind, path = "keytab", options["keyTab"]
    elif _is_on(options, "useTicketCache"):
        kind, path = "ticket_cache", options.get("ticketCache") or _usual_cache()
    else:
        reader.refuse(_JAAS, "the login module needs useKeyTab=true or useTicketCache=true")
        return None
    try:
        content = read_file(file_path(path))
    except ConfigError as error:
        which = "its keyTab" if kind == "keytab" else "its ticket cache (run kinit)"
        reader.refuse(_JAAS, f"{which} cannot be read: {error.cause}")
        return None
    found: dict[str, Any] = {kind: Secret(base64.b64encode(content).decode())}
    if kind == "ticket_cache":
        given = {name: reader.value(key, None) for name, key in RENEWAL_KEYS.items()}
        found["renewal"] = TicketRenewal(
            path=str(file_path(path).absolute()),
            **{name: value for name, value in given.items() if value is not None},
        )
    return found


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


def _usual_cache() -> str:
    """Returns the path of the ticket cache that Java uses by default."""
    return os.environ.get("KRB5CCNAME") or f"/tmp/krb5cc_{os.getuid()}"  # noqa: S108


def _krb5_conf(given: str | None) -> str:
    """Returns the text of the files that `given` names, with a colon between two files. Without
    `given`, the files are those of the environment, else that of the system. Raises ConfigError."""
    paths = given or _KRB5_CONFIG or java_option("java.security.krb5.conf") or ""
    if not paths:
        usual = Path("/etc/krb5.conf")
        note(usual)
        return _with_included(usual) if usual.exists() else ""
    return "\n".join(_with_included(Path(path)) for path in paths.split(":") if path)


def _with_included(path: Path, depth: int = 0) -> str:
    """Returns the text of `path` with the text of the files that it includes, because a lane has
    none of these files. After an included file, the section of `path` continues."""
    if depth > _MOST_INCLUDES:
        raise ConfigError("read", str(path), "too many files include one another")
    lines: list[str] = []
    section = ""
    for line in read_file(path).decode("utf-8", "replace").splitlines():
        if (match := _INCLUDE.fullmatch(line)) is None:
            section = line if _SECTION.match(line) else section
            lines.append(line)
            continue
        lines += [_with_included(each, depth + 1) for each in _included(match[1], Path(match[2]))]
        lines.append(section)
    return "\n".join(lines)


def _included(directive: str, path: Path) -> list[Path]:
    if directive == "include":
        return [path]
    note(path)
    try:
        found = sorted(path.iterdir())
    except OSError as error:
        raise ConfigError("read", str(path), (error.strerror or str(error)).lower()) from None
    return [each for each in found if _INCLUDED.fullmatch(each.name)]
