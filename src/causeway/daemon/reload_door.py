"""How `causeway reload` reaches the drivers of a file on this machine: each driver has a Unix
socket, in a directory that only its user may enter.

    <directory>/<hash of the file's path>.<process>.sock
    command ── its user, as a line ──► driver ── the ReloadStatus, a line of JSON ──► command
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotInTimeError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from causeway.errors import CausewayError, NobodyLeadsError, PrerequisiteError
from causeway.status import ReloadStatus

_log = logging.getLogger("causeway.run")
_LONGEST: Final = 200  # bytes of the caller's name
_READ_S: Final = 10.0
_DIRECTORY: Final = "causeway"


class Reloaded(NamedTuple):
    """The outcome at one driver of a file."""

    pid: int
    status: ReloadStatus


@contextmanager
def open_door(file: Path | None, reload: Callable[[str], Future[ReloadStatus]]) -> Iterator[None]:
    """Accepts calls of `ask_drivers` for `file` while the block lasts. A driver that cannot listen
    logs that, and still accepts SIGHUP."""
    if file is None:
        yield
        return
    try:
        path = _directory() / f"{_name(file)}.{os.getpid()}.sock"
        listener = socket.socket(socket.AF_UNIX)
        path.unlink(missing_ok=True)  # left by an earlier process with this id
        listener.bind(str(path))
        listener.listen()
    except (OSError, CausewayError) as error:
        about = {"reason": str(error), "instead": "SIGHUP"}
        _log.warning("causeway reload cannot reach this run", extra=about)
        yield
        return
    door = threading.Thread(target=_serve, args=(listener, reload), name="reload", daemon=True)
    door.start()
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        listener.close()


def ask_drivers(file: Path, by: str, timeout_s: float) -> list[Reloaded]:
    """Has each driver of `file` that runs on this machine as this user read the file again. Raises
    NobodyLeadsError if there is no such driver, or if one does not answer in time."""
    found = []
    for path in sorted(_directory().glob(f"{_name(file)}.*.sock")):
        pid = int(path.name.split(".")[1])
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            try:
                connection.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)  # its process was killed
                continue
            except FileNotFoundError:
                continue  # it has just ended
            found.append(Reloaded(pid, _ask(connection, by, pid)))
    if not found:
        raise NobodyLeadsError(
            "reload",
            str(file),
            "no driver of this file runs on this machine as this user",
            remedy="run the command where the driver runs, such as in its container, or send the"
            " driver SIGHUP",
        )
    return found


def _ask(connection: socket.socket, by: str, pid: int) -> ReloadStatus:
    try:
        connection.sendall(by.encode(errors="replace")[:_LONGEST] + b"\n")
        answer = bytearray()
        while data := connection.recv(65536):
            answer += data
        return msgspec.json.decode(bytes(answer), type=ReloadStatus)
    except TimeoutError:
        cause = "it did not answer in time; it may still put the file in force"
    except (OSError, msgspec.MsgspecError):
        cause = "it ended before it answered"
    raise NobodyLeadsError("reload", f"driver {pid}", cause, remedy="see its log")


def _serve(listener: socket.socket, reload: Callable[[str], Future[ReloadStatus]]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # the run ends
        threading.Thread(
            target=_answer, args=(connection, reload), name="reload caller", daemon=True
        ).start()


def _answer(connection: socket.socket, reload: Callable[[str], Future[ReloadStatus]]) -> None:
    with connection, suppress(OSError, NotInTimeError, CancelledError):
        connection.settimeout(_READ_S)
        line = b""
        while not line.endswith(b"\n") and len(line) <= _LONGEST:
            if not (data := connection.recv(_LONGEST + 1)):
                return
            line += data
        status = reload(line.decode(errors="replace").strip()).result()
        connection.sendall(msgspec.json.encode(status))


def _name(file: Path) -> str:
    """Returns the part of a socket's name that identifies `file`: a hash of its path, without
    symbolic links in the directory. The file itself may be a link: a Kubernetes ConfigMap replaces
    the file that the link leads to."""
    path = file.absolute()
    return hashlib.sha256(os.fsencode(path.parent.resolve() / path.name)).hexdigest()[:16]


def _directory() -> Path:
    """Returns the directory. It exists, belongs to this user, and only this user may enter it.
    Raises PrerequisiteError."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and os.path.isdir(base):
        path = Path(base, _DIRECTORY)
    else:
        path = Path(tempfile.gettempdir(), f"{_DIRECTORY}-{os.getuid()}")
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not private or stat.S_IMODE(found.st_mode) & 0o077:
        raise PrerequisiteError(
            "use directory",
            str(path),
            "it must be a directory of this user, which only this user may enter",
            remedy="remove it",
        )
    return path
