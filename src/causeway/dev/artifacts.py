"""Apache Kafka's jars in the user's cache, downloaded once with the Ivy of PySpark.

    <cache>/causeway/kafka/<version>/lib/          a broker          (about 45 MB)

`<cache>` is XDG_CACHE_HOME or ~/.cache. versions.py decides the version. CAUSEWAY_IVY_SETTINGS
names an Ivy settings file (for a mirror or a proxy).

jars.sha512 has the hash of each jar of the tested versions. A jar of these versions that has
another hash, or is not listed, is refused. Other versions are downloaded without a check, and a
message says that their jars are not verified.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from rich.console import Console
from rich.status import Status

from causeway.dev.versions import KafkaVersion, kafka_version, tested_remedy
from causeway.errors import PrerequisiteError
from causeway.java import find_java

# Kafka's jars log through slf4j 1.7. They contain log4j 2, but not the bridge between the two.
# Before 4.0 they need log4j 1 and do not contain it; Kafka's last 3.x releases came with reload4j.
_LOG4J_2 = (("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),)
_LOG4J_1 = (("org.slf4j", "slf4j-reload4j", "1.7.36"), ("ch.qos.reload4j", "reload4j", "1.2.25"))
_PAUSES_S = (1.0, 5.0, 15.0)  # before the second attempt, the third…
_PINS = Path(__file__).with_name("jars.sha512")


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """With a `classifier`: only that jar of the roots, without their dependencies. With a
    `release`: the jars are not Kafka's; `organisation` publishes the roots in this version, and
    `pins` has the hashes."""

    folder: str
    title: str
    roots: tuple[str, ...]
    classifier: str = ""
    organisation: str = "org.apache.kafka"
    release: str = ""
    pins: Path | None = None


_BROKER = JarSet(folder="lib", title="Apache Kafka", roots=("kafka_2.13",))


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "causeway"


def kafka_directory(version: KafkaVersion) -> Path:
    """Returns the directory for this version of Kafka in the cache. It need not exist yet."""
    return cache_directory() / "kafka" / str(version)


def broker_classpath(version: KafkaVersion | None = None) -> str:
    """Returns the Java class path of a broker; see `classpath`."""
    return classpath(_BROKER, version)


def classpath(jars: JarSet, version: KafkaVersion | None = None) -> str:
    """Returns the Java class path of the jars; downloads them if they are not in the cache yet.

    Raises PrerequisiteError if Java is missing or too old, if there is no such version, or if all
    attempts to download failed."""
    return f"{_provide(jars, version or kafka_version())}/*"


def _provide(jars: JarSet, kafka: KafkaVersion) -> Path:
    version = jars.release or str(kafka)
    root = cache_directory() / jars.folder if jars.release else kafka_directory(kafka)
    folder = root / (jars.release or jars.folder)
    if folder.is_dir():
        return folder
    java = find_java()
    root.mkdir(parents=True, exist_ok=True)
    # One lock for all versions: they share Ivy's cache, which two processes at once would damage.
    with locked(cache_directory() / "ivy.lock"):
        if folder.is_dir():  # another process has fetched it while we waited
            return folder
        # The rename creates the folder, complete or not at all.
        with tempfile.TemporaryDirectory(dir=root, prefix=".fetching-") as temporary:
            lib = Path(temporary) / "lib"
            _fetch(jars, version, _ivy_command(jars, kafka, java, Path(temporary)), lib)
            _verify(jars, version, lib)
            lib.rename(folder)
    return folder


def _verify(jars: JarSet, version: str, folder: Path) -> None:
    """Raises PrerequisiteError if a jar in `folder` is not the tested one."""
    text = (jars.pins or _PINS).read_text()
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    pins = {name: digest for digest, name in lines}
    if f"{jars.roots[0]}-{version}.jar" not in pins:
        Console(stderr=True).print(f"{jars.title} {version} is not pinned by hash: as it came.")
        return
    for jar in sorted(folder.glob("*.jar")):
        if hashlib.sha512(jar.read_bytes()).hexdigest() != pins.get(jar.name):
            raise PrerequisiteError(
                "use",
                f"{jars.title} {version}",
                f"{jar.name} is not the tested file: its SHA-512 differs",
                remedy=f"do not trust its registry; remove {cache_directory() / 'ivy'} and download"
                " it again from a registry that you trust",
            )


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lets in one process at a time; others wait. If the process ends, so does its lock."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(jars: JarSet, version: str, command: list[str], lib: Path) -> None:
    """Fills `lib`, which `command` names. If the registry fails for a moment, it is asked again.
    Ivy caches the jars that it has got, so a second attempt continues from there."""
    title, console = f"{jars.title} {version}", Console(stderr=True)
    if not console.is_terminal:
        console.print(f"Fetching {title} into {cache_directory()}, once.")
    cause = ""
    for pause_s in (0.0, *_PAUSES_S):
        time.sleep(pause_s)
        with console.status(f"Fetching {title}") as status:
            output = _IvyOutput(title, status)
            ivy = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            assert ivy.stdout is not None
            for line in ivy.stdout:
                output.read(line)
        if ivy.wait() == 0 and any(lib.glob("*.jar")):
            return
        if output.no_such_version:
            raise PrerequisiteError(
                "fetch",
                title,
                "the registry has no such version",
                remedy=tested_remedy(),
            )
        cause = output.failure()
    raise PrerequisiteError(
        "fetch",
        title,
        cause,
        remedy="check the network, or name an Ivy settings file for your mirror or proxy in "
        "CAUSEWAY_IVY_SETTINGS",
        retriable=True,
    )


def _ivy_command(jars: JarSet, version: KafkaVersion, java: Path, temporary: Path) -> list[str]:
    modules = [(jars.organisation, name, jars.release or str(version)) for name in jars.roots]
    conf, artifact = "default->runtime(*),master(*)", ""
    if jars.classifier:
        conf = "default->master(*)"
        artifact = f'<artifact name="{{}}" type="jar" m:classifier={quoteattr(jars.classifier)}/>'
    elif not jars.release:
        modules += _LOG4J_1 if jars is _BROKER and version.log4j_1 else _LOG4J_2
    dependencies = "".join(
        f"<dependency org={quoteattr(org)} name={quoteattr(name)} rev={quoteattr(revision)}"
        f' conf="{conf}">{artifact.format(name)}</dependency>'
        for org, name, revision in modules
    )
    recipe = temporary / "ivy.xml"
    recipe.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="causeway" module="kafka"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    settings = os.environ.get("CAUSEWAY_IVY_SETTINGS")
    return [
        *(str(java), "-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *(["-settings", settings] if settings else []),
        *("-ivy", str(recipe), "-cache", str(cache_directory() / "ivy")),
        *("-types", "jar", "bundle"),
        *("-retrieve", str(temporary / "lib" / "[artifact]-[revision](-[classifier]).[ext]")),
    ]


def _ivy_jar() -> Path:
    pyspark = find_spec("pyspark")  # found, not imported: importing it takes a second
    folders = pyspark.submodule_search_locations if pyspark else None
    found = sorted(Path(folders[0]).glob("jars/ivy-*.jar")) if folders else []
    if not found:
        raise PrerequisiteError(
            "find Ivy", "", "PySpark's folder has no jars/ivy-*.jar", remedy="reinstall pyspark"
        )
    return found[-1]


class _IvyOutput:
    """Shows Ivy's progress on `status`, and keeps the reason of a failure.

    Ivy first reports each module, one per line. Then it reports each downloaded jar, one per line,
    with its size. It does not report jars that are in its cache."""

    def __init__(self, title: str, status: Status) -> None:
        self._title, self._status = title, status
        self._modules = self._jars = self._kilobytes = 0
        self._problems: list[str] = []

    def read(self, line: str) -> None:
        text = line.strip()
        if text.startswith("found "):
            self._modules += 1
        elif text.startswith("[SUCCESSFUL"):
            self._jars += 1
        elif size := re.fullmatch(r"\.* ?\((\d+)kB\)", text):
            self._kilobytes += int(size[1])
        elif re.search(r"error|exception|not found|problem|failed|timed out", text, re.IGNORECASE):
            self._problems.append(text)
        fetched = f"{self._jars} jars, {self._kilobytes / 1024:.1f} MB"
        self._status.update(f"Fetching {self._title}: {self._modules} modules, {fetched}")

    @property
    def no_such_version(self) -> bool:
        """Whether the registry has answered, and does not have the version."""
        lost = "module not found: org.apache.kafka#"
        troubles = r"host|server|error|exception|timed out|refused"
        return any(problem.startswith(lost) for problem in self._problems) and not any(
            re.search(troubles, problem, re.IGNORECASE) for problem in self._problems
        )

    def failure(self) -> str:
        """Returns the line of Ivy's output that explains the failure best, without addresses."""
        reasons = [problem for problem in self._problems if "::" not in problem[:4]]
        line = (reasons or self._problems or ["Ivy failed and gave no reason"])[0]
        line = re.sub(r"\w+://\S*/", "", line)
        return re.sub(r"^\W+|\s+", " ", line).strip()[:300]
