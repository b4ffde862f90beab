"""What a file says of the treatment of records: `causeway.skip.header`, `causeway.provenance`.

Steps come in the order in which they are listed here: what is left out is not looked at again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from causeway.config.entries import Entry, Problems
from causeway.config.keys import PROVENANCE, FlowKeys
from causeway.config.settings import TreatmentSettings


def treatments(
    own: Mapping[str, Entry],
    keys: FlowKeys,
    *,
    source: str,
    target: str,
    transformed: bool,
    problems: Problems,
) -> tuple[TreatmentSettings, ...]:
    """Of the flow between these aliases; `transformed`: it has transforms. What cannot be goes to
    `problems`."""
    if keys.provenance != "none" and transformed:
        # A query decides on all headers, so it could drop the one that stops a loop.
        problems.add(
            f"{own[PROVENANCE].place}: a flow with transforms cannot have it, since a transform"
            " may change headers"
        )
    return tuple(_steps(keys, source, target))


def _steps(keys: FlowKeys, source: str, target: str) -> Iterator[TreatmentSettings]:
    if keys.skip_header:
        yield TreatmentSettings(
            kind="skip-header",
            decides={"name": keys.skip_header},
            text=f"left out if it has the header {keys.skip_header}",
        )
    if keys.provenance != "none":
        local = {"local": True} if keys.provenance == "local" else {}
        decides = {"source": source, "target": target, **local}
        left_out = f"if it was not written on {source}" if local else f"if it has been on {target}"
        text = f"left out {left_out}, as its headers tell, else marked as from {source}"
        yield TreatmentSettings(kind="provenance", decides=decides, text=text)
