"""The one error tree.

    CausewayError                 exit code
    ├── ConfigError               2   a file, key, option or value that cannot be used
    │   ├── OtherFormError        2   a file that says the same in a form that no command runs
    │   ├── RefusedError          2   a request that a mirror cannot carry out in its state
    │   └── TooFewBrokersError    2   a cluster has fewer brokers than a topic needs replicas
    ├── UnreachableError          3   no broker answered in the stated time
    ├── AuthenticationError       4   TLS or SASL refused
    ├── AuthorizationError        5   an ACL is missing
    ├── PrerequisiteError         6   Java, Spark or a package is missing or too old
    ├── PartitionsFailedError     7   the run ended with partitions that stopped or failed
    ├── DecryptError              7   a key does not fit, or an encrypted text was changed
    ├── DivergedError             7   source and target no longer fit together; a person decides
    ├── BrokerError               8   a broker answered with another Kafka error code
    ├── ConflictError             10  concurrent administrative request; nothing was changed
    ├── NobodyLeadsError          9   no driver leads the link, or none acted in time
    ├── NeedsRestartError        12   a changed file that a running driver cannot put in force
    └── ProtocolError             1   bytes that do not follow Kafka's protocol
        └── TooLargeError         7   a batch that would take too much memory unpacked

Each says which operation failed, on which object, why, what a person can do, and whether another
try may help. No error's text has a secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class CausewayError(Exception):
    """Base of all errors that Causeway raises on purpose.

    `operation` and `subject`: the attempt and its object ("create topic", "A.orders on B").
    `cause`: why it failed. `remedy`: the action that a person can take. `retriable`: the same call
    may succeed later without a change.
    """

    exit_code = 1

    def __init__(
        self,
        operation: str,
        subject: str = "",
        cause: str = "",
        *,
        remedy: str = "",
        retriable: bool = False,
    ) -> None:
        self.operation = operation
        self.subject = subject
        self.cause = cause
        self.remedy = remedy
        self.retriable = retriable
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"{self.operation} {self.subject}".strip()
        if self.cause:
            text += f": {self.cause}"
        if self.remedy:
            text += f" ({self.remedy})"
        return text

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.__dict__.copy()))


def _rebuild(kind: type[CausewayError], state: dict[str, object]) -> CausewayError:
    error = kind.__new__(kind)
    error.__dict__.update(state)
    Exception.__init__(error, str(error))
    return error


@contextmanager
def for_cluster(alias: str) -> Iterator[None]:
    """Adds cluster `alias` to errors of the block: connections to several clusters share code,
    tokens and certificates that do not know the cluster."""
    try:
        yield
    except CausewayError as error:
        error.subject = f"{error.subject} for cluster {alias}".strip()
        error.args = (str(error),)
        raise


class ConfigError(CausewayError):
    exit_code = 2


class OtherFormError(ConfigError):
    """A file in a form that no command runs. `instead`: the same settings in a form that commands
    run, without secrets."""

    exit_code = 2

    def __init__(self, subject: str, cause: str, *, remedy: str, instead: str) -> None:
        super().__init__("read", subject, cause, remedy=remedy)
        self.instead = instead


class RefusedError(ConfigError):
    exit_code = 2


class TooFewBrokersError(ConfigError):
    """This may be so only for a moment, while a broker restarts."""

    exit_code = 2


class UnreachableError(CausewayError):
    exit_code = 3


class AuthenticationError(CausewayError):
    exit_code = 4


class AuthorizationError(CausewayError):
    exit_code = 5


class PrerequisiteError(CausewayError):
    exit_code = 6


class PartitionsFailedError(CausewayError):
    exit_code = 7


class BrokerError(CausewayError):
    """A Kafka error code in a response. `code`: the protocol's number. `name`: its constant."""

    exit_code = 8

    def __init__(
        self,
        operation: str,
        subject: str = "",
        cause: str = "",
        *,
        code: int,
        name: str,
        remedy: str = "",
        retriable: bool = False,
    ) -> None:
        self.code = code
        self.name = name
        super().__init__(operation, subject, cause or name, remedy=remedy, retriable=retriable)


class ConflictError(CausewayError):
    exit_code = 10


class NobodyLeadsError(CausewayError):
    exit_code = 9


class NeedsRestartError(CausewayError):
    exit_code = 12


class ProtocolError(CausewayError):
    exit_code = 1


class TooLargeError(ProtocolError):
    exit_code = 7


class DecryptError(CausewayError):
    """A key does not fit, or the encrypted text was changed or moved. The error has no text."""

    exit_code = 7


class DivergedError(CausewayError):
    """Source and target no longer fit together. To go on could lose, double or reorder records.

    The partition stops until a person decides.
    """

    exit_code = 7
