"""`causeway decrypt`: decrypts what transform rules have encrypted."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from causeway.cli.common import load
from causeway.cli.words import printable_json
from causeway.errors import CausewayError, ConfigError

if TYPE_CHECKING:
    from causeway.config import ClientSettings, Settings
    from causeway.records import Record
    from causeway.transform import Keys


def command(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="A property file or causeway.yaml; the secrets of its transforms are the keys.",
            show_default=False,
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="TOPIC", help="Read this topic.", show_default=False),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="ALIAS",
            help="The cluster of FILE that has the topic.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        Path,
        typer.Option(
            "--input", metavar="PATH", help="Read this file: one value per line; - is stdin."
        ),
    ] = Path("-"),
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            metavar="PATH",
            help="A property file with keys: id = hex or base64, or ${env:VARIABLE}.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Print decrypted data: a JSON object for each record of a topic, or a line for each line of a
    file or of standard input.

    Exits with 7 at the first text that no key fits, or that was changed."""
    settings = load(file, quiet=True) if file is not None else None
    keys = _keys(settings, key_file)
    if topic is None:
        stream = nullcontext(sys.stdin) if str(source) == "-" else _open(source)
        with stream as lines:
            _lines(lines, keys)
        return 0
    if settings is None or cluster is None:
        raise ConfigError(
            "decrypt",
            topic,
            "the cluster of the topic is missing",
            remedy="give FILE and --cluster",
        )
    for at, record in _records(_client(settings, cluster), topic):
        try:
            plain = _plain(record, keys)
        except CausewayError as error:
            raise _at(error, f"{topic}-{at} at offset {record.offset}") from None
        _print({"partition": at, **plain})
    return 0


def _keys(settings: Settings | None, key_file: Path | None) -> Keys:
    from causeway.config import Problems
    from causeway.formats import load_properties
    from causeway.transform import Keys, aes_key

    found: dict[str, str | bytes] = {}
    for link in settings.links if settings is not None else ():
        for transform in link.transforms:
            for name, secret in transform.secrets.items():
                try:
                    found[name] = aes_key(secret.reveal())
                except ValueError:
                    continue  # the secret of a hash
    if key_file is not None:
        problems = Problems(str(key_file))
        entries = load_properties(key_file, problems).entries
        problems.raise_if_any()
        found.update({name: entry.value.strip() for name, entry in entries.items()})
    if not found:
        raise ConfigError(
            "decrypt", "", "there is no key", remedy="give --key-file, or a FILE with transforms"
        )
    try:
        return Keys(found)
    except ValueError as error:
        raise ConfigError("use", str(key_file), str(error)) from None


def _open(path: Path) -> TextIO:
    try:
        return path.open(encoding="utf-8")
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise ConfigError("read", str(path), cause) from None


def _lines(lines: Iterable[str], keys: Keys) -> None:
    from causeway.transform import decrypt_json, decrypt_value

    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        try:
            try:
                document = json.loads(text)
            except ValueError:
                # A whole value with the id of its key; other text that is not JSON is an error.
                _print(_shown(decrypt_value(text.encode(), keys)))
            else:
                _print(decrypt_json(document, keys))
        except CausewayError as error:
            raise _at(error, f"line {number}") from None


def _client(settings: Settings, alias: str) -> ClientSettings:
    for link in settings.links:
        for client in (link.target_admin, link.source):
            if client.alias == alias:
                return client
    raise ConfigError("decrypt", alias, "no flow of the file reads or writes this cluster")


def _records(client: ClientSettings, topic: str) -> Iterator[tuple[int, Record]]:
    """Yields the committed records up to now, with their partitions, partition by partition."""
    from causeway.cluster import EARLIEST, LATEST, clusters
    from causeway.model import TopicPartition
    from causeway.spark import looked_up, read_range

    with clusters() as connect:
        cluster = connect(client)
        found = cluster.metadata([topic]).topics.get(topic)
        if found is None or not found.partitions:
            error = found.error if found is not None else None
            raise error or ConfigError("decrypt", topic, f"{client.alias} has no such topic")
        places = [TopicPartition(topic, number) for number in range(len(found.partitions))]
        starts = looked_up(cluster, places, EARLIEST, False)
        ends = looked_up(cluster, places, LATEST, True)
        for place in places:
            ends_at = starts[place], ends[place]
            for run in read_range(
                cluster, place, *ends_at, read_committed=True, fail_on_data_loss=False
            ):
                for record in run.records:
                    yield place.partition, record


def _plain(record: Record, keys: Keys) -> dict[str, Any]:
    from causeway.transform import HEADER, announced_in

    headers = [(name, data) for name, data in record.headers if name != HEADER]
    announced = announced_in(record.headers)
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _part(record.key, "key", announced, keys),
        "value": _part(record.value, "value", announced, keys),
        "headers": [[name, _part(data, _header(name), announced, keys)] for name, data in headers],
    }


def _header(name: str) -> str:
    from causeway.transform.rules import RulePath as RulePath

    return str(RulePath("headers", None, name))


def _part(data: bytes | None, part: str, announced: dict[str, str], keys: Keys) -> Any:
    from causeway.transform import PREFIX, decrypt_json, decrypt_value

    if data is None:
        return None
    data = bytes(data)
    every = "headers.*" if part.startswith("headers") else part
    key_id = announced.get(part, announced.get(every))
    if key_id is not None or data.startswith(PREFIX.encode()):
        data = decrypt_value(data, keys, part, key_id)
    try:
        document = json.loads(data)
    except ValueError:
        return _shown(data)
    return decrypt_json(document, keys, part, announced)


def _shown(data: bytes) -> Any:
    """Returns the value as JSON if possible, else as text, else as base64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
    try:
        return json.loads(text)
    except ValueError:
        return text


def _print(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    sys.stdout.write(printable_json(text) + "\n")


def _at(error: CausewayError, place: str) -> CausewayError:
    error.subject = f"{error.subject} of {place}" if error.subject else place
    return error
