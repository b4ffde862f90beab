"""Writes docs/reference/configuration.md: `python -m causeway.config.reference`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from causeway.config.clients import (
    REGISTRY_TLS,
    SECURITY,
    ClientKeys,
    FetchSettings,
    ProducerKeys,
    RegistryKeys,
    SchemaKeys,
)
from causeway.config.key_table import Key
from causeway.config.keys import OLD_NAMES, ControlSettings, FlowKeys, HeartbeatKeys
from causeway.config.process import IN_SECONDS, SPARK, HttpSettings, RunSettings, WebhookSettings
from causeway.config.transform_keys import TRANSFORM_REGISTRY_TLS, TRANSFORM_SECRETS, TransformKeys

_HEAD = """# Configuration

Causeway reads MirrorMaker 2's property files: Java's syntax, its keys, its precedence. `A->B.x`
wins over `x`; `A.consumer.x`, `A.producer.x` and `A.admin.x` reach one client of cluster A, `A.x`
all of them. Values may be `${env:VAR}`, `${file:/path:key}`, `${dir:/path:file}` or plain `${VAR}`;
a line end after such a value is not part of the value.

Keys of Connect's that have no meaning here are named in one warning, keys that MirrorMaker 2 or
Kafka's clients know and this version does not act on in another, unknown keys in a third; none is
dropped in silence. All that is wrong with a file is said at once.

New files can be written as [causeway.yaml](causeway-yaml.md) instead; `causeway convert` makes one
out of the other.

This page is made of the table in the code: `python -m causeway.config.reference`.
"""

_PATTERNS = """
Patterns are Java's, and match whole names: a comma ends one, a flag such as `(?i)` holds for those
after it. A pattern that needs look-around, back-references or possessive quantifiers gets 0.1 s for
each name. A name that it cannot decide in that time is left out. `plan` lists such topics; `status`
lists such groups, with the task "groups"."""


_TRANSFORMS = """`A->B.causeway.transforms` lists them. The keys of a transform are written
`A->B.causeway.transform.NAME.key`, or `causeway.transform.NAME.key` for all flows. Exactly one of
`sql`, `sql.file`, `python`, `rules` and `rules.file` says how its records change; see
[Transforms](../how-to/transforms.md).
"""


def markdown() -> str:
    """Returns the whole page."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield _HEAD
    yield "## Clusters\n"
    yield "`clusters` lists the aliases (required). Of each cluster, written `A.key` or `key`:\n"
    yield from _table(_rows(SECURITY.values()))
    yield "\n## Flows\n"
    yield "Written `A->B.key`, or `key` for all flows:\n"
    yield from _table(_rows(FlowKeys.all_keys()))
    yield _PATTERNS
    yield "\nGroups, offset syncs, checkpoints and ACLs of a flow, written the same way:\n"
    yield from _table(_rows(ControlSettings.all_keys()))
    yield "\nSchemas of a flow's records, written the same way:\n"
    yield from _table(_rows(SchemaKeys.all_keys()))
    yield "\nThe schema registry of a cluster, written `A.key`:\n"
    yield from _table(_rows([*RegistryKeys.all_keys(), *REGISTRY_TLS.values()]))
    yield "\nHeartbeats, written the same way, of every pair of clusters, also if no flow runs:\n"
    yield from _table(_rows(HeartbeatKeys.all_keys()))
    old = ", ".join(f"`{old}` for `{new}`" for old, new in OLD_NAMES.items())
    yield f"\nOld names are accepted: {old}."
    yield "\n## Transforms\n"
    yield _TRANSFORMS
    others = TRANSFORM_REGISTRY_TLS | TRANSFORM_SECRETS
    yield from _table(_rows([*TransformKeys.all_keys(), *others.values()]))
    yield "\n## Readers\n"
    yield "Written `A.consumer.key`:\n"
    yield from _table(_rows(FetchSettings.all_keys()))
    yield "\n## Writers\n"
    yield "Written `A.producer.key`, or `A->B.producer.override.key`:\n"
    of_all = ClientKeys.all_keys()
    yield from _table(_rows(each for each in ProducerKeys.all_keys() if each not in of_all))
    yield "\n## Every client\n"
    yield "Written `A.key`, or `A.consumer.key`, `A.producer.key`, `A.admin.key`:\n"
    yield from _table(_rows(ClientKeys.all_keys()))
    yield "\n## The process\n"
    process = (RunSettings, HttpSettings, WebhookSettings)
    yield from _table(_rows(key for table in process for key in table.all_keys()))
    seconds = ", ".join(f"`{name}`" for name in IN_SECONDS)
    yield f"\nThe same in seconds: {seconds}."
    yield (
        "\n`spark.*` keys go to Spark as they are;"
        " see [Running on a Spark cluster](../how-to/spark.md)."
    )
    yield "\n## Changes without a restart\n"
    yield from _changes()


def _changes() -> Iterator[str]:
    yield (
        "A running driver [takes a changed file over](../how-to/operations.md#change-the-file).\n"
        "Only these keys of the process need a restart:\n"
    )
    yield "| key | reason |"
    yield "|---|---|"
    for table in (RunSettings, HttpSettings, WebhookSettings):
        for each in table.all_keys():
            if each.applies.restart:
                yield f"| `{each.name}` | {each.applies.restart} |"
    yield f"| `spark.*` | {SPARK.restart} |"
    yield (
        "\nMore transforms may need a restart, too: Spark was started with room for a number of"
        " stages. If the file had no transform at the start, its first transform needs one."
    )
    yield (
        "\nSome keys of a flow decide which records a mirror has, or under which offsets. The flow"
        " compares a change of them with what it has recorded, by the rules of a start:\n"
    )
    tables = (FlowKeys, FetchSettings, SchemaKeys, RegistryKeys)
    names = (each.name for table in tables for each in table.all_keys() if each.applies.as_start)
    yield ", ".join(f"`{name}`" for name in names) + ", and all keys of transforms."


def _rows(keys: Iterable[Key]) -> Iterator[tuple[str, str, str]]:
    for each in keys:
        yield f"`{each.name}`", f"`{each.default}`" if each.default else "", each.meaning


def _table(rows: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    yield "| key | default | meaning |"
    yield "|---|---|---|"
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


if __name__ == "__main__":
    print(markdown(), end="")
