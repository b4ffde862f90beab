"""Files that Java gets by `KAFKA_OPTS`, the variable of Kafka's scripts. Many files with Kerberos
rely on it: krb5.conf, and the login module in a file of its own.

KAFKA_OPTS="-Djava.security.krb5.conf=/etc/krb5.conf -Djava.security.auth.login.config=/etc/jaas"
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Final

from causeway.config.entries import read_file
from causeway.errors import ConfigError

LOGIN_CONFIG: Final = "java.security.auth.login.config"
_CLIENT: Final = "KafkaClient"  # Kafka's name of the section
_FILE: Final = re.compile(r"=?(file:(//)?)?", re.IGNORECASE)
_PIECE = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' | [{}] | [^\s{}"'/]+ | .""",
    re.VERBOSE | re.DOTALL,
)


def file_path(text: str) -> Path:
    """Returns the path in `text`, which may be an address (`file:/…`), as for Java."""
    return Path(_FILE.sub("", text, count=1))


def java_option(name: str) -> str | None:
    """Returns the value of `-Dname=value`. None if there is no such option."""
    try:
        words = shlex.split(os.environ.get("KAFKA_OPTS", ""))
    except ValueError:
        return None
    start = f"-D{name}="
    return next((word.removeprefix(start) for word in words if word.startswith(start)), None)


def login_module_of_file() -> str | None:
    """Returns the login module of Kafka's clients in the file that Java's option names. None if
    there is no such option. Raises ConfigError, which quotes nothing."""
    given = java_option(LOGIN_CONFIG)
    if not given:
        return None
    path = file_path(given)
    text = _section(read_file(path).decode("utf-8", "replace"))
    if text is None:
        raise ConfigError("read", str(path), f"it has no section {_CLIENT} {{ … }};")
    return text


def _section(text: str) -> str | None:
    before, start = "", None
    for match in _PIECE.finditer(text):
        piece = match.group()
        if piece == "{" and before == _CLIENT:
            start = match.end()
        elif piece == "}" and start is not None:
            return text[start : match.start()]
        if not piece.isspace() and not piece.startswith(("//", "/*")):
            before = piece
    return None
