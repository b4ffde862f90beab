"""The treatment and the transform of each topic's records, with their present identity."""

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
    """`identity` changes with everything that decides the result. `key` names its stages. `routes`:
    the topics and partitions to which its link may lead records."""

    settings: TransformSettings
    identity: str
    key: str
    routes: Routes

    @property
    def name(self) -> str:
        return self.settings.name

    def serves(self, settings: TransformSettings, routes: Routes) -> bool:
        """Returns whether the stages of this transform also serve `settings` and `routes`, if the
        identity is the same. A stage does not depend on the topics that go through it."""
        before, now = (
            replace(without_place(each), topics=()) for each in (self.settings, settings)
        )
        return before == now and self.routes.portable() == routes.portable()

    def shortcut(self) -> Shortcut | None:
        """Returns the shortcut of rules, which are known to be correct before Spark has seen them.
        None for other transforms, and if a schema registry has to be asked first."""
        if self.settings.rules is None or self.settings.registry is not None:
            return None
        found: Shortcut | None
        found = import_module("causeway.transform.rules").shortcut_of(self.settings)
        return found

    def stage(
        self, shortcut: Shortcut | QueryShortcut | None = None, *, late: bool = False
    ) -> StageSpec:
        """Returns the spec of a stage for lanes, with its secrets. `late`: if there is a
        `shortcut`, the stage's job begins only when a record needs it."""
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
            routes=_pickled(self.routes.portable()),
        )


class Transforms:
    """The transforms of one link. `spark`: the settings of the Spark that they run on. Raises
    ConfigError if an identity is not known, for example because a function cannot be imported.
    Raises NeedsRestartError for a function whose module has changed since this process imported
    it."""

    def __init__(
        self,
        link: LinkSettings,
        spark: Spark,
        identify: Identify | None = None,
        before: Transforms | None = None,
        generation: int = 0,
    ) -> None:
        """`before`: the transforms before a reload. Transforms that stay the same keep their
        stages. The others have keys of this `generation`, so that no lane mistakes a stage with
        earlier secrets or registries for theirs."""
        self._link = link
        self.all: tuple[Transform, ...] = ()
        if link.transforms:
            if identify is None:
                # Imported here, because links without transforms do not need it.
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

        # Cached, because each look at the clusters asks about every topic.
        @lru_cache(100_000)
        def of(topic: str) -> Transform | None:
            settings = link.transform_of(topic) if link.transforms else None
            return None if settings is None else by_settings[id(settings)]

        self.of = of

    def identity_of(self, topic: str) -> str | None:
        """Returns the identity of all that its records go through; None if they are relayed
        unchanged."""
        transform = self.of(topic)
        identity = None if transform is None else transform.identity
        treatments = self._link.treatments_of(topic) if self._link.treatments else ()
        return with_treatments(identity, treatments) if treatments else identity

    def may_multiply(self, topic: str) -> bool:
        """Returns whether one record may become several. Rules never do that."""
        transform = self.of(topic)
        return transform is not None and transform.settings.rules is None


def without_place(settings: TransformSettings) -> TransformSettings:
    """Returns `settings` without their place in the file."""
    registry = settings.registry
    return replace(
        settings, place="", registry=None if registry is None else replace(registry, place="")
    )


def with_treatments(identity: str | None, treatments: Sequence[TreatmentSettings]) -> str:
    """Returns the identity of `treatments` that are followed by a transform of that `identity`, or
    by none."""
    decides = [identity, *([each.kind, dict(each.decides)] for each in treatments)]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def treatment_steps(treatments: Iterable[TreatmentSettings]) -> tuple[TreatmentStep, ...]:
    """Returns the steps with the settings that they need."""
    return tuple(
        TreatmentStep(kind=each.kind, settings={**each.decides, **each.needs})
        for each in treatments
    )


def only_treated(
    treatments: Sequence[TreatmentSettings], progress: PartitionProgress
) -> tuple[TreatmentStep, ...] | None:
    """Returns the treatment of the mirrored records of a partition, if it is `treatments` (of the
    file), no transform followed, and it needs no other system. Empty if records were relayed
    unchanged. Otherwise None."""
    if progress.transform is None:
        return ()
    if any(each.needs for each in treatments):
        return None
    same = bool(treatments) and with_treatments(None, treatments) == progress.transform
    return treatment_steps(treatments) if same else None


def _pickled(value: Shortcut | QueryShortcut | Routes) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()
