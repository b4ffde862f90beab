"""What the records of a source partition become for each of its outlets.

Lanes and recovery agree on it, so that they number the same records alike: a series is a function
of the source's log, and of what its records go through. Without a treatment or a transform they
stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from causeway.errors import DivergedError
from causeway.records import Batch
from causeway.relay.messages import Assignment
from causeway.relay.shares import shares
from causeway.relay.treatment import NotYetError, Topics, Treatment, topics_of, treat_batch

# Of batches as they are relayed: the part of each outlet, None where it gets nothing. All that one
# source record becomes for an outlet is in one part. Ends before a record that is refused.
Series = Callable[[Assignment, Iterator[Batch]], Iterator[Sequence[Batch | None]]]


def gone(assignment: Assignment, batches: Iterator[Batch]) -> Iterator[Sequence[Batch | None]]:
    """Of a transform that is no more: raises DivergedError where anybody has to know."""
    raise DivergedError(
        "resume",
        f"{assignment.link} {assignment.source_partition}",
        "what an earlier transform has made of its records cannot be made again",
    )


def as_relayed(
    assignment: Assignment, batches: Iterator[Batch]
) -> Iterator[Sequence[Batch | None]]:
    """Byte for byte, to the only outlet, or by key."""
    if len(assignment.outlets) == 1:
        return ([batch] for batch in batches)
    return (shares(batch, assignment) for batch in batches)


def treated(treatment: Treatment, series: Series) -> Series:
    """`series` of what `treatment` leaves, for a helper's thread: blocks where the treatment has to
    find something out."""

    def both(assignment: Assignment, batches: Iterator[Batch]) -> Iterator[Sequence[Batch | None]]:
        topics = topics_of(assignment)
        left = (_prepared(batch, treatment, topics) for batch in batches)
        return series(assignment, (batch for batch in left if batch is not None))

    return both


def _prepared(batch: Batch, treatment: Treatment, topics: Topics) -> Batch | None:
    while True:
        try:
            return treat_batch(batch, treatment, topics)
        except NotYetError:
            treatment.prepare()
