"""Checks the transforms of a file by Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from causeway.config import LinkSettings, Settings, TransformSettings
from causeway.errors import ConfigError
from causeway.operate.try_transform import OnStep, local_spark, prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformPlan:
    """`topics`: the source topics that are mirrored through the transform. `sql`: the query that
    Spark runs; None for a Python function. `replaces`: the parts of a record that it replaces.
    `multiplies`: whether it may make several records of one. `without_spark`: whether workers treat
    plain records without Spark, see docs/decisions/0058."""

    settings: TransformSettings
    topics: tuple[str, ...] = ()
    sql: str | None = None
    replaces: tuple[str, ...] = ()
    multiplies: bool = False
    without_spark: bool = False

    def as_json(self) -> dict[str, Any]:
        """JSON for `--json`. It has no secrets, because the text of a transform has none."""
        settings = self.settings
        return {
            "transform": settings.name,
            "kind": settings.kind,
            "topics": list(self.topics),
            "sql": self.sql,
            "python": settings.python,
            "rules": settings.rules,
            "replaces": list(self.replaces),
            "may_make_several_records_of_one": self.multiplies,
            "plain_records_without_spark": self.without_spark,
            "dead_letter_topic": settings.dead_letters,
        }


# By the link's name and the transform's.
Checks = Mapping[tuple[str, str], TransformPlan]


def check(settings: Settings, on_step: OnStep) -> Checks:
    """Has Spark parse every transform of the file. `on_step` is called with each step. Without
    transforms, Spark is not started. Raises one ConfigError for all errors."""
    wanted = [(link.name, each) for link in settings.links for each in link.transforms]
    if not wanted:
        return {}
    on_step("starting Spark to check the transforms")
    checks: dict[tuple[str, str], TransformPlan] = {}
    wrong: list[ConfigError] = []
    with local_spark(settings.spark) as session:
        for link, transform in wanted:
            on_step(f"checking {transform.name} of {link}")
            try:
                found = prepared(session, transform)
            except ConfigError as error:
                wrong.append(error)
            else:
                checks[link, transform.name] = TransformPlan(
                    settings=transform,
                    sql=found.sql,
                    replaces=tuple(sorted(found.replaces)),
                    multiplies=found.multiplies,
                    without_spark=found.work.shortcut is not None,
                )
    if wrong:
        raise together(wrong)
    return checks


def together(errors: list[ConfigError]) -> ConfigError:
    """Returns one error for all, with each text once."""
    texts = list(dict.fromkeys(map(_text, errors)))
    if len(texts) == 1:
        return errors[0]
    listed = "".join(f"\n  {text.replace(chr(10), chr(10) + '  ')}" for text in texts)
    return ConfigError("use", "the transforms", f"{len(texts)} cannot be used{listed}")


def _text(error: ConfigError) -> str:
    remedy = f" ({error.remedy})" if error.remedy else ""
    return f"{error.subject}: {error.cause}{remedy}"


def plan(link: LinkSettings, checks: Checks, mirrored: Iterable[str]) -> tuple[TransformPlan, ...]:
    """Returns the transforms of `link`, each with its topics among `mirrored`."""
    topics: dict[str, list[str]] = {each.name: [] for each in link.transforms}
    for topic in mirrored:
        if (chosen := link.transform_of(topic)) is not None:
            topics[chosen.name].append(topic)
    return tuple(
        replace(checks[link.name, name], topics=tuple(some)) for name, some in topics.items()
    )
