"""A home and a name for a user id that the system's list of users does not have.

OpenShift runs containers with such an id by default. Java then takes `?` for the user's home, and
Hadoop's login fails.
"""

from __future__ import annotations

import os
import pwd
import tempfile
from dataclasses import dataclass
from typing import Any

_NAME = "causeway"
_VARIABLES = ("SPARK_USER", "HADOOP_USER_NAME")  # the first one that is set names the user


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    name: str
    home: str

    @property
    def java_options(self) -> str:
        # The launcher splits options at spaces, but not within quotes.
        return f'"-Duser.home={self.home}" "-Duser.name={self.name}"'

    def set_environment(self) -> None:
        """Sets the variables of this process and of the processes that it starts."""
        os.environ["HOME"] = self.home
        for variable in _VARIABLES:
            os.environ.setdefault(variable, self.name)

    def log_in(self, jvm: Any) -> None:
        """Hadoop's own login asks the system for the user's name, and ignores the variables."""
        users = jvm.org.apache.hadoop.security.UserGroupInformation
        users.setLoginUser(users.createRemoteUser(self.name))


def missing() -> Account | None:
    """The account to use, None if the system has one for this user id."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        named = filter(None, (os.environ.get(variable) for variable in _VARIABLES))
        return Account(name=next(named, _NAME), home=_home())
    return None


def _home() -> str:
    home = os.environ.get("HOME", "")
    usable = os.path.isabs(home) and os.path.isdir(home) and os.access(home, os.W_OK | os.X_OK)
    return home if usable else tempfile.gettempdir()
