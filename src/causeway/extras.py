"""Commands that add packages to this installation, for the remedies of errors.

Causeway is a wheel made from a clone and is on no package index, so a command cannot name
`causeway[aws]`. It names the packages of the extra, and the Python that lacks them: the Python of
pipx, of uv, or of a Spark worker is not the Python that a shell finds.
"""

from __future__ import annotations

import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

_OF_EXTRA = re.compile(r"""(?P<package>[^;]+?)\s*;\s*extra\s*==\s*['"](?P<extra>[^'"]+)['"]""")


def install_extra(extra: str) -> str:
    """Returns the command that installs the packages of an extra of Causeway."""
    packages = _packages(extra)
    return install(*packages) if packages else f"install the packages of Causeway's extra {extra}"


def install_kerberos() -> str:
    """Does the same for the extra `kerberos`, whose package is built with a library of the
    system."""
    command = install_extra("kerberos")
    return f"{command}; it needs MIT's Kerberos library and its headers (libkrb5-dev)"


def install(*packages: str) -> str:
    """Returns the command that installs `packages`. Environments of `uv tool` have no pip."""
    python = shlex.quote(sys.executable)
    tool = f"uv pip install --python {python}"
    if find_spec("pip") is not None:
        tool = f"{python} -m pip install"
    return " ".join((tool, *map(shlex.quote, packages)))


def _packages(extra: str) -> list[str]:
    """Returns the packages by the metadata of this installation; none if a Spark worker has only
    the sources."""
    try:
        listed = requires("causeway") or []
    except PackageNotFoundError:
        return []
    found = map(_OF_EXTRA.fullmatch, listed)
    return [match["package"] for match in found if match and match["extra"] == extra]
