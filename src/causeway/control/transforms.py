"""What the records of a topic go through, a treatment and a transform, and what it is by now."""

from __future__ import annotations

import base64
import hashlib
import json
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING

from causeway.config import LinkSettings, Routes, Secret, TransformSettings, TreatmentSettings
from causeway.java import java_version
from causeway.link_topics import PartitionProgress
from causeway.relay import StageSpec, TreatmentStep

if TYPE_CHECKING:
    from causeway.transform.queries import QueryShortcut
    from causeway.transform.rules import Shortcut

Spark = Mapping[str, str | Secret]
Identify = Callable[[TransformSettings, Spark], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """`identity` changes with everything that decides the result; `key` names its stages; `routes`:
    the topics and partitions to which its link may lead records."""

    settings: TransformSettings
    identity: str
    key: str
    routes: Routes | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    def serves(self, settings: TransformSettings, routes: Routes) -> bool:
        """Whether the stages of this transform serve `settings` and `routes` as well, if the
        identity is the same. A stage does not depend on which topics go through it."""
        before, now = (
            replace(without_place(each), topics=()) for each in (self.settings, settings)
        )
        known = None if self.routes is None else self.routes.portable()
        return before == now and known == routes.portable()

    def shortcut(self) -> Shortcut | None:
        """Of rules, which are known to be sound before Spark has seen them; None for all else, and
        where a schema registry is to be asked first."""
        if self.settings.rules is None or self.settings.registry is not None:
            return None
        found: Shortcut | None
        found = import_module("causeway.transform.rules").shortcut_of(self.settings)
        return found

    def stage(
        self, shortcut: Shortcut | QueryShortcut | None = None, *, late: bool = False
    ) -> StageSpec:
        """As lanes need it, with its secrets. `late`: its job is not to begin before a record needs
        it, where there is a `shortcut`."""
        settings = self.settings
        registry = settings.registry
        return StageSpec(
            key=self.key,
            name=settings.name,
            secrets={name: secret.reveal() for name, secret in settings.secrets.items()},
            registry=None if registry is None else registry.as_json(),
            dead_letters=settings.dead_letters,
            shortcut=None if shortcut is None else _pickled(shortcut),
            late=late and shortcut is not None,
            routes=None if self.routes is None else _pickled(self.routes.portable()),
        )


class Transforms:
    """Those of one link; `spark`: the settings of the Spark that they run on. Raises ConfigError
    for one whose identity can't be told, such as a function that can't be imported, and
    NeedsRestartError for a function whose module has changed since this process imported it."""

    def __init__(
        self,
        link: LinkSettings,
        spark: Spark,
        identify: Identify | None = None,
        before: Transforms | None = None,
        generation: int = 0,
    ) -> None:
        """`before`: those of the settings before a reload. Those that stay the same keep their
        stages; the others have keys of this `generation`, so that no lane takes a stage with
        earlier secrets or registries for theirs."""
        self._link = link
        self.all: tuple[Transform, ...] = ()
        if link.transforms:
            if identify is None:
                # Imported here: links without transforms need neither it nor its imports.
                found = import_module("causeway.transform").identity_of
                identify = partial(found, java=java_version())
            found_before = {} if before is None else {each.name: each for each in before.all}
            suffix = f".{generation}" if generation else ""
            self.all = tuple(
                Transform(
                    settings=each,
                    identity=(identity := identify(each, spark)),
                    key=known.key
                    if (known := found_before.get(each.name)) is not None
                    and known.identity == identity
                    and known.serves(each, Routes.of(link))
                    else f"{link.name}/{each.name}@{identity[:16]}{suffix}",
                    routes=Routes.of(link),
                )
                for each in link.transforms
            )
        by_settings = {id(each.settings): each for each in self.all}

        # A topic's patterns are asked once: each look at the clusters asks of every topic.
        @lru_cache(100_000)
        def of(topic: str) -> Transform | None:
            settings = link.transform_of(topic) if link.transforms else None
            return None if settings is None else by_settings[id(settings)]

        self.of = of

    def identity_of(self, topic: str) -> str | None:
        """Of all that its records go through; None where they are relayed as they are."""
        transform = self.of(topic)
        identity = None if transform is None else transform.identity
        treatments = self._link.treatments_of(topic) if self._link.treatments else ()
        return with_treatments(identity, treatments) if treatments else identity

    def may_multiply(self, topic: str) -> bool:
        """Whether several records may come of one. Rules keep each record, and only it."""
        transform = self.of(topic)
        return transform is not None and transform.settings.rules is None


def without_place(settings: TransformSettings) -> TransformSettings:
    """`settings` wherever they are in their file."""
    registry = settings.registry
    return replace(
        settings, place="", registry=None if registry is None else replace(registry, place="")
    )


def with_treatments(identity: str | None, treatments: Sequence[TreatmentSettings]) -> str:
    """Of what is treated before it goes through a transform of that `identity`, or none."""
    decides = [identity, *([each.kind, dict(each.decides)] for each in treatments)]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def treatment_steps(treatments: Iterable[TreatmentSettings]) -> tuple[TreatmentStep, ...]:
    """The steps with the settings that they need."""
    return tuple(
        TreatmentStep(kind=each.kind, settings={**each.decides, **each.needs})
        for each in treatments
    )


def only_treated(
    treatments: Sequence[TreatmentSettings], progress: PartitionProgress
) -> tuple[TreatmentStep, ...] | None:
    """The treatment of the mirrored records of a partition, if it is `treatments` (of the file), no
    transform followed, and it needs no other system. Empty if records were relayed unchanged; None
    otherwise."""
    if progress.transform is None:
        return ()
    if any(each.needs for each in treatments):
        return None
    same = bool(treatments) and with_treatments(None, treatments) == progress.transform
    return treatment_steps(treatments) if same else None


def _pickled(value: Shortcut | QueryShortcut | Routes) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()
