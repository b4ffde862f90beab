"""The files of an archive on a file system that Spark supports.

    PATH/topic=orders/day=2026-11-22/00000001-….parquet    records, day by their time (UTC)
    PATH/_causeway/archive.json                             the archive's id
    PATH/_causeway/manifests/00000001.json                  what run 1 added: offsets, files, …
    PATH/_causeway/staging/00000001-…/topic=…/day=…/…       its files, until the manifest is there

A run belongs to the archive once its manifest exists; a manifest is created atomically. The files
are moved to their places after that, if necessary by the next process that opens the archive. Spark
ignores names that begin with `_`, so a reader of PATH sees whole runs, except while files are
moved. One process at a time may add to an archive; if two do, the first run counts and the other
process fails. No process deletes the staged files of another run.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from causeway.errors import PrerequisiteError
from causeway.model import TopicPartition

_VERSION = 1
_META = "_causeway"
_STAGING = f"{_META}/staging"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedRange:
    """The records of source offsets `start` up to `end` of a partition. `digest`: of their offset,
    timestamp, key, value and headers."""

    start: int
    end: int
    records: int = 0
    digest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTopic:
    """A topic when the run began. `configs`: the topic's own configs."""

    topic_id: str
    partitions: int
    configs: Mapping[str, str]
    shares: Mapping[int, ArchivedRange] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A run. `files`: paths in the archive, in their final places."""

    number: int
    cluster_id: str | None
    topics: Mapping[str, ArchivedTopic]
    files: tuple[str, ...]

    def dumps(self) -> str:
        return json.dumps({"version": _VERSION, **asdict(self)}, indent=1)

    @classmethod
    def loads(cls, text: str) -> Manifest:
        """Raises ValueError, KeyError or TypeError if `text` is not a manifest."""
        data = json.loads(text)
        if data.pop("version") != _VERSION:
            raise ValueError("a newer Causeway wrote it")
        return msgspec.convert(data, cls, str_keys=True)


class Store:
    """Files under one path, on any file system of Spark's JVM."""

    def __init__(self, spark: Any, path: str) -> None:
        """Raises PrerequisiteError if no file system supports the path."""
        self._jvm = spark._jvm
        self._own = uuid.uuid4().hex
        self.path = path.rstrip("/")
        try:
            root = self._at("")
            self._fs = root.getFileSystem(spark._jsc.sc().hadoopConfiguration())
            self.path = str(self._fs.makeQualified(root).toString()).rstrip("/")
        except Exception as error:
            raise PrerequisiteError("open archive", path, _java_cause(error)) from None

    def _at(self, below: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.path}/{below}" if below else self.path)

    def at(self, below: str) -> str:
        return f"{self.path}/{below}"

    # -- the archive

    def id(self, *, create: bool) -> str:
        """Returns the id of the archive. Raises PrerequisiteError if the archive does not exist,
        unless `create`."""
        text = self._read(f"{_META}/archive.json")
        if text is None:
            if not create:
                raise PrerequisiteError("open archive", self.path, "there is none")
            text = json.dumps({"version": _VERSION, "id": uuid.uuid4().hex})
            self._publish(f"{_META}/archive.json", text)
        return str(json.loads(text)["id"])

    def manifests(self) -> list[Manifest]:
        """Returns the manifests in order. Raises PrerequisiteError if one cannot be read."""
        found = []
        for name in sorted(self._names(f"{_META}/manifests")):
            if not name.endswith(".json"):
                continue
            place = f"{_META}/manifests/{name}"
            try:
                found.append(Manifest.loads(self._read(place) or ""))
            except (ValueError, KeyError, TypeError) as error:
                raise PrerequisiteError("read", self.at(place), str(error)) from None
        return found

    def staging(self, number: int) -> str:
        """Returns the folder for the files of a new run. Only this process uses it."""
        return self.at(self._staging(number))

    def _staging(self, number: int) -> str:
        return f"{_STAGING}/{number:08d}-{self._own}"

    def staged_files(self, number: int) -> dict[str, str]:
        """Returns the files of a new run: the current path of each, with its final place."""
        return self._staged(self._staging(number), number)

    def _staged(self, base: str, number: int) -> dict[str, str]:
        return {
            f"{base}/{topic}/{day}/{name}": f"{topic}/{day}/{number:08d}-{name}"
            for topic in self._names(base)
            if topic.startswith("topic=")
            for day in self._names(f"{base}/{topic}")
            for name in self._names(f"{base}/{topic}/{day}")
            if name.endswith(".parquet")
        }

    def add(self, manifest: Manifest) -> None:
        """Adds the run to the archive."""
        self._publish(f"{_META}/manifests/{manifest.number:08d}.json", manifest.dumps())

    def settle(self, manifests: list[Manifest]) -> None:
        """Moves the remaining files of these runs to their places, and deletes other files that
        were staged under the same numbers."""
        counted = {f"{one.number:08d}": one for one in manifests}
        for name in self._names(_STAGING):
            manifest = counted.get(name.partition("-")[0])
            if manifest is None:
                continue  # the run may still be in progress
            base = f"{_STAGING}/{name}"
            for source, target in self._staged(base, manifest.number).items():
                if target in manifest.files:
                    self._fs.mkdirs(self._at(target).getParent())
                    self._rename(source, target)
            self._fs.delete(self._at(base), True)

    # -- files

    def _names(self, below: str) -> list[str]:
        place = self._at(below)
        if not self._fs.exists(place):
            return []
        return [status.getPath().getName() for status in self._fs.listStatus(place)]

    def _read(self, below: str) -> str | None:
        place = self._at(below)
        if not self._fs.exists(place):
            return None
        stream = self._fs.open(place)
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return str(text)

    def _publish(self, below: str, text: str) -> None:
        """Writes the file atomically."""
        draft = f"{below}.{uuid.uuid4().hex}.draft"
        stream = self._fs.create(self._at(draft), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if self._fs.exists(self._at(below)):
            self._fs.delete(self._at(draft), False)
            cause = "another process has written it: only one process at a time may add"
            raise PrerequisiteError("write", self.at(below), cause)
        self._rename(draft, below)

    def _rename(self, source: str, target: str) -> None:
        if not self._fs.rename(self._at(source), self._at(target)):
            raise PrerequisiteError("move to", self.at(target), "the file system refused")


def ends(manifests: list[Manifest]) -> dict[TopicPartition, int]:
    """Returns the source offset up to which each partition is archived."""
    return {
        TopicPartition(name, partition): share.end
        for manifest in manifests
        for name, topic in manifest.topics.items()
        for partition, share in topic.shares.items()
    }


def _java_cause(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.startswith(":")]
    return (lines or str(error).splitlines() or [type(error).__name__])[0].lstrip(": ")
