"""The two clusters and the mirror between them: for this run only, or to be kept.

A kept demo lives in <state>/causeway/demo (see causeway.dev.environment): its clusters, its
mm2.properties, and the mirror's log and process id.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path

from causeway.dev import Environment, LocalCluster, Process, spawn, start_all, state_directory
from causeway.errors import CausewayError

SOURCE, TARGET = "east", "west"
CAUSEWAY = Path(sys.executable).with_name("causeway")

_STOP_S = 120.0  # the mirror drains its lanes first
_FILE = """\
clusters = east, west
east.bootstrap.servers = {source}
west.bootstrap.servers = {target}

east->west.enabled = true
east->west.topics = flights\\\\..*, weather, planes

replication.factor = 1
refresh.topics.interval.seconds = 5
"""


class Ground(ABC):
    """`source` and `target` are bootstrap addresses, known once `up` has returned."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.source = self.target = ""
        self.mirror: Process | None = None

    @property
    def file(self) -> Path:
        return self.directory / "mm2.properties"

    @property
    def log(self) -> Path:
        return self.directory / "mirror.log"

    @abstractmethod
    def up(self) -> None:
        """Start both clusters, and write the mirror's file."""

    @abstractmethod
    def down(self) -> None:
        """Stop everything and remove its files; also after half an `up`, or none."""

    def start_mirror(self) -> None:
        """`causeway run` in a process of its own."""
        command: list[str | Path] = [CAUSEWAY, "run", self.file]
        self.mirror = spawn(command, output=self.log, detached=self._detached)

    def check_mirror(self) -> None:
        """CausewayError, with its last words, if it has died."""
        if self.mirror is not None and not self.mirror.alive():
            raise CausewayError("run", f"{CAUSEWAY.name} run", self._last_words())

    @property
    def page(self) -> str | None:
        """Where the mirror's page is; None where another process has its port."""
        said = self.log.read_text(errors="replace") if self.log.exists() else ""
        found = re.search(r"event=served address=(\S+)", said)
        return found[1] if found else None

    def stop_mirror(self) -> None:
        """As Ctrl-C would. CausewayError unless it ended well."""
        if self.mirror is None:
            return
        self.check_mirror()
        mirror, self.mirror = self.mirror, None
        mirror.stop(_STOP_S)
        if mirror.exit_code != 0:
            cause = f"exit code {mirror.exit_code}; {self._last_words()}"
            raise CausewayError("stop", f"{CAUSEWAY.name} run", cause)

    _detached = False

    def log_end(self, lines: int = 20) -> str:
        """The last lines of what the mirror said, as long as its files are there."""
        said = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(said.strip().splitlines()[-lines:])

    def _last_words(self) -> str:
        return self.log_end(1) or "it said nothing"

    def _write_file(self) -> None:
        self.file.write_text(_FILE.format(source=self.source, target=self.target))


class PassingGround(Ground):
    """Ends with this process, however that ends."""

    def __init__(self) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="causeway-demo-")))
        self._clusters = [
            LocalCluster(name, directory=self.directory / name) for name in (SOURCE, TARGET)
        ]

    def up(self) -> None:
        start_all(self._clusters)
        self.source, self.target = (cluster.bootstrap for cluster in self._clusters)
        self._write_file()

    def down(self) -> None:
        if self.mirror is not None:
            self.mirror.kill()
        for cluster in self._clusters:
            cluster.destroy()
        shutil.rmtree(self.directory, ignore_errors=True)


class KeptGround(Ground):
    """Runs on until `down`, which a later process may call."""

    _detached = True

    def __init__(self) -> None:
        super().__init__(state_directory().parent / "demo")
        self._environment = Environment(self.directory)
        if self._process_file.exists():
            self.mirror = Process(**json.loads(self._process_file.read_text()))

    @property
    def there(self) -> bool:
        return self.directory.exists()

    def up(self) -> None:
        self.source, self.target = (each.bootstrap for each in self._environment.up(2))
        self._write_file()

    def start_mirror(self) -> None:
        super().start_mirror()
        assert self.mirror is not None
        known = {"pid": self.mirror.pid, "started": self.mirror.started}
        self._process_file.write_text(json.dumps(known))

    def down(self) -> None:
        if self.mirror is not None:
            self.mirror.stop()
        self._environment.down()
        # A broker's last files may appear while we remove them.
        for _ in range(3):
            shutil.rmtree(self.directory, ignore_errors=True)
            if not self.there:
                return
            time.sleep(0.5)

    @property
    def _process_file(self) -> Path:
        return self.directory / "mirror.json"
