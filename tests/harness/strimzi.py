"""Resources of Strimzi and the settings that they mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from causeway.config import LinkSettings, Settings
from causeway.errors import ConfigError
from causeway.formats import Converted, load
from tests.harness.config_files import ENVIRONMENT

RESOURCES = Path(__file__).parents[1] / "unit/config/strimzi/resources"
EXAMPLES = sorted(each.stem for each in RESOURCES.glob("*.yaml"))


def mount(folder: Path, files: dict[str, str]) -> None:
    data = folder / "..2026_01_31"
    data.mkdir(parents=True)
    (folder / "..data").symlink_to(data.name)
    for name, text in files.items():
        (data / name).write_text(text)
        (folder / name).symlink_to(f"..data/{name}")


def judged(file: Path, secrets: Path | None = None) -> Settings | None:
    """Without what speaks of lines, and of what is without effect; None where it is refused."""
    environment = ENVIRONMENT | ({} if secrets is None else {"CAUSEWAY_SECRETS": str(secrets)})
    try:
        found = load(file, environment=environment)
    except ConfigError:
        return None
    links = tuple(sorted(map(without_place, found.links), key=lambda link: link.name))
    beats = tuple(sorted(found.heartbeat_links, key=lambda each: each.name))
    return replace(found, links=links, heartbeat_links=beats, warnings=())


def other(directory: Path, found: Converted, name: str) -> Path:
    file = directory / name
    file.write_text(found.text)
    return file


def without_place(link: LinkSettings) -> LinkSettings:
    schemas = link.schemas
    if schemas is not None:
        one, two = (replace(each, place="") for each in (schemas.source, schemas.target))
        schemas = replace(schemas, source=one, target=two)
    transforms = tuple(replace(each, place="") for each in link.transforms)
    return replace(link, transforms=transforms, schemas=schemas)
