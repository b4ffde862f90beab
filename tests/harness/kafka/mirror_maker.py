"""The real MirrorMaker 2, as a child process: the benchmark's peer, and the tests' oracle."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from causeway.dev import Process, kafka_jvm_options, spawn
from causeway.errors import CausewayError
from causeway.java import find_java
from tests.harness.kafka.jars import connect_classpath

MAIN_CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"

_LOG4J = """\
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %m (%c)%n%throwable
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = file
"""


class MirrorMaker2:
    """Dedicated mode (`connect-mirror-maker`), with `properties` as its file.

    Files in `directory`: `mm2.properties`, `mm2.log`, `console.log`. It mirrors some 15 to 40 s
    after `start`: see for its topics on the target. The default heap is that of Kafka's script."""

    def __init__(
        self,
        properties: Mapping[str, str],
        directory: Path,
        *,
        jvm_options: Sequence[str] | None = None,
        classpath: Sequence[Path] = (),
    ) -> None:
        """`classpath`: jars besides Kafka's own."""
        self.directory = directory
        self._properties = dict(properties)
        own = kafka_jvm_options("-Xms256m -Xmx2g", "") if jvm_options is None else jvm_options
        self._jvm_options = tuple(own)
        self._classpath = tuple(classpath)
        self._process: Process | None = None

    @property
    def pid(self) -> int | None:
        alive = self._process is not None and self._process.alive()
        return self._process.pid if alive and self._process is not None else None

    @property
    def properties_file(self) -> Path:
        return self.directory / "mm2.properties"

    @property
    def log_file(self) -> Path:
        return self.directory / "mm2.log"

    def start(self) -> None:
        """Returns at once. It dies with this Python process."""
        self.directory.mkdir(parents=True, exist_ok=True)
        write_properties(self.properties_file, self._properties)
        log4j = self.directory / "mm2-log4j2.properties"
        log4j.write_text(_LOG4J.format(file=self.log_file))
        command: list[str | Path] = [
            find_java(),
            *self._jvm_options,
            f"-Dlog4j2.configurationFile={log4j}",
            *(
                "-cp",
                os.pathsep.join((connect_classpath(), *map(str, self._classpath))),
                MAIN_CLASS,
            ),
            self.properties_file,
        ]
        self._process = spawn(command, output=self.directory / "console.log")

    def check(self) -> None:
        """CausewayError, with the last error in its log, if it has died."""
        if self._process is not None and not self._process.alive():
            cause = f"exit code {self._process.exit_code}; {'; '.join(self.problems()[-1:])}"
            raise CausewayError("run MirrorMaker 2 in", str(self.directory), cause)

    def problems(self) -> list[str]:
        """The log's lines of level ERROR."""
        if not self.log_file.exists():
            return []
        lines = self.log_file.read_text(errors="replace").splitlines()
        return [line for line in lines if re.match(r"\S+ \S+ ERROR ", line)]

    def stop(self, timeout_s: float = 30.0) -> None:
        """SIGTERM, and SIGKILL after `timeout_s`."""
        if self._process is not None:
            self._process.stop(timeout_s)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """A Java property file that only its owner can read. Values may hold backslashes."""
    path.touch(mode=0o600)
    path.write_text(
        "".join(f"{key} = {value}\n".replace("\\", "\\\\") for key, value in properties.items())
    )
