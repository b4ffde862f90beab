"""Records on the cluster which batches are written, so that each batch is written exactly once.

Task `p` of a write named `w` writes batch `b` in its own transaction, with the id `w.p`. Part of
that transaction is a **mark**: offset `b + 1` of the group `w.p`, with a digest of the rows. So the
records exist exactly if the mark does. Another attempt, or another driver, that writes the batch
again first takes over the transactional id, which aborts an open transaction and fences its writer,
and then reads the mark: if it exists, nothing is written again, and the rows must match the digest.

Before the driver commits the first transaction of a batch, it notes in the group `w` the batch and
its number of tasks. When the batch is written again, a task that was there before may be missing or
empty. Without the note, the task that has its rows now would write them a second time.

Groups without members lose their offsets after the brokers' `offsets.retention.minutes` (a week).
Their names begin with `__`, so that mirrors skip them: a mark is valid for its own cluster only. A
translated mark is detected, because its note also contains the batch."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from causeway.cluster import Cluster, Committed, Transaction, transactions
from causeway.errors import CausewayError, DivergedError
from causeway.model import TopicPartition

PREFIX = "__causeway-spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMark:
    """`batch`: the last written batch. `note`: the digest of a task's rows, or the number of
    tasks."""

    batch: int
    note: str


def write_name(name: str) -> str:
    """Returns the prefix of groups and transactional ids. `name`: a query's id or the option id."""
    return f"{PREFIX}.{name}"


def task_name(write: str, task: int) -> str:
    return f"{write}.{task}"


def marks(cluster: Cluster, names: Collection[str]) -> dict[str, LedgerMark]:
    """Returns the mark of each group that has one. Raises CausewayError, and DivergedError if a
    mark was not written on this cluster."""
    found: dict[str, LedgerMark] = {}
    if not names:
        return found
    for name, offsets in cluster.committed_offsets_of(names).items():
        if isinstance(offsets, CausewayError):
            raise offsets
        if offsets:  # all topics of the batch have the same mark
            last = max(offsets.values(), key=lambda committed: committed.offset)
            batch, _, note = last.metadata.partition(" ")
            if batch != str(last.offset - 1):
                raise DivergedError(
                    "read",
                    f"the offsets of group {name} on {cluster}",
                    "they are not what was committed with them: a mirror has translated them",
                    remedy="delete the group, and leave groups that begin with __ out of mirrors",
                )
            found[name] = LedgerMark(batch=last.offset - 1, note=note)
    return found


def mark(
    cluster: Cluster, transaction: Transaction, batch: int, digest: str, topics: Iterable[str]
) -> None:
    """Adds the mark to `transaction`, in the group with its name. Raises CausewayError."""
    committed = Committed(offset=batch + 1, metadata=f"{batch} {digest}")
    places = {TopicPartition(topic, 0): committed for topic in topics}
    transactions.commit_offsets(cluster, transaction, transaction.id, places)


def note_batch(cluster: Cluster, write: str, batch: int, tasks: int, topics: Iterable[str]) -> None:
    """Notes the batch and its number of tasks. Raises CausewayError."""
    committed = Committed(offset=batch + 1, metadata=f"{batch} {tasks}")
    places = {TopicPartition(topic, 0): committed for topic in topics}
    result = cluster.commit_offsets({write: places})[write]
    for error in [result] if isinstance(result, CausewayError) else result.values():
        if error is not None:
            raise error


def check_same(write: str, batch: int, before: str, now: str) -> None:
    """Raises DivergedError if a task has other rows than those that it has written."""
    if before != now:
        raise DivergedError(
            "write",
            f"batch {batch} of {write} again",
            f"a task has other rows ({now}) than those it had written before ({before})",
            remedy="a query must give the same rows to the same tasks when it runs again: no "
            "random numbers, no present time, the same number of shuffle partitions",
        )


def check_none_missing(
    cluster: Cluster, write: str, batch: int, filled: Collection[int], tasks: int
) -> None:
    """Raises DivergedError if a task without rows has written rows of this batch before."""
    before = marks(cluster, [write]).get(write)
    if before is None or before.batch != batch:
        return
    known = max(tasks, int(before.note or 0))
    empty = [task_name(write, task) for task in range(known) if task not in filled]
    for found in marks(cluster, empty).values():
        if found.batch == batch:
            check_same(write, batch, found.note, "0 rows")
