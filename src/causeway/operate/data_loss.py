"""What a mirror lacks though its lag does not tell."""

from __future__ import annotations

from causeway.link_topics.progress import Progress


def why(progress: Progress, target_end: int, source_first: int | None) -> str | None:
    """In words, None where nothing is lacking. `target_end`: where the mirror ends, if we alone
    write to it; `source_first`: where the source begins, asked for if that is 0."""
    return _lost(progress, target_end) or _never_had(progress, target_end, source_first)


def _lost(progress: Progress, target_end: int) -> str | None:
    written = progress.outlets[0].pair.target
    if target_end >= written:
        return None
    return (
        f"the target ends at {target_end}, below {written}: it lost what it had acknowledged, and "
        "gets it again from a running driver"
    )


def _never_had(progress: Progress, target_end: int, source_first: int | None) -> str | None:
    """A mirror that began at the source's end is not behind, and lacks all the same."""
    if target_end > 0 or source_first is None or source_first >= progress.position:
        return None
    return (
        f"the mirror is empty: the source's offsets {source_first} to {progress.position - 1} lie "
        "before its beginning, or hold nothing to mirror"
    )
