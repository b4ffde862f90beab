"""Loads a file of settings in any form."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from causeway.config import Entry, Problems, Settings, rereadable

if TYPE_CHECKING:
    from causeway.config import Entry
    from causeway.formats.causeway_yaml.document import Fields


class Form(StrEnum):
    """The forms that `causeway convert` writes."""

    PROPERTIES = "properties"
    CAUSEWAY = "causeway"


def is_yaml(path: Path) -> bool:
    """Returns whether `path` is read as YAML, which includes JSON. The end of the name decides."""
    return path.suffix.lower() in (".yaml", ".yml", ".json")


def is_resource(document: Fields) -> bool:
    """Returns whether `document` is a Kubernetes resource of any kind."""
    return not {"apiVersion", "kind"}.isdisjoint(document.values)


def default_form(path: Path) -> Form:
    """Returns the form that `causeway convert` writes by default: a property file for YAML, and
    causeway.yaml for a property file."""
    return Form.PROPERTIES if is_yaml(path) else Form.CAUSEWAY


def load(path: Path, *, environment: Mapping[str, str] | None = None) -> Settings:
    """Returns the settings in `path`: causeway.yaml or Strimzi's KafkaMirrorMaker2 by the end of
    its name, else MirrorMaker 2's property file. Asks no cluster. Raises one ConfigError with all
    problems. `Settings.warnings` names keys without effect. `environment` replaces os.environ."""
    return rereadable(lambda: _load(path, environment))


def _load(path: Path, environment: Mapping[str, str] | None) -> Settings:
    if not is_yaml(path):
        from causeway.formats.mm2 import load_mm2

        return load_mm2(path, environment=environment)
    from causeway.formats import connectors
    from causeway.formats.causeway_yaml.document import read_document

    if (found := connectors.read_connectors(path)) is not None:
        raise connectors.refused(path, found)
    problems = Problems(str(path))
    document = read_document(path, problems)
    if is_resource(document):
        from causeway.formats.strimzi.read import settings_of
    else:
        from causeway.formats.causeway_yaml.read import settings_of
    return settings_of(path, document, problems, environment=environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntries:
    """`form`: None for a form that is never written (Strimzi's resource, connectors of Connect).
    `notes`: for people, about settings that a property file does not have, or needs in addition."""

    entries: Mapping[str, Entry]
    form: Form | None = None
    notes: tuple[str, ...] = ()


def read_entries(path: Path, problems: Problems) -> FileEntries:
    """Returns the entries of a file in any form, with unresolved references. Raises ConfigError if
    the file cannot be read. Other problems go to `problems`."""
    if not is_yaml(path):
        from causeway.formats.properties import read_properties

        return FileEntries(form=Form.PROPERTIES, entries=read_properties(path).entries)
    from causeway.formats.causeway_yaml import read
    from causeway.formats.causeway_yaml.document import read_document
    from causeway.formats.connectors import read_connectors
    from causeway.formats.logins import with_login_modules
    from causeway.formats.strimzi.read import read_resource
    from causeway.formats.strimzi.secrets import MOUNTED, VARIABLE, Secrets

    if (connectors := read_connectors(path)) is not None:
        return FileEntries(entries=connectors.entries, notes=connectors.notes)
    document = read_document(path, problems)
    if not is_resource(document):
        found = read.read_entries(document, problems)
        settled = with_login_modules(found, problems, resolved=False)
        return FileEntries(form=Form.CAUSEWAY, entries=settled)
    where = os.environ.get(VARIABLE)
    secrets = Secrets(directory=Path(where or MOUNTED), problems=problems, unseen=not where)
    resource = read_resource(document, problems, secrets, carry=True)
    settled = with_login_modules(resource.entries, problems, resolved=False)
    notes = resource.warnings
    if not where and any(f"${{dir:{MOUNTED}/" in each.value for each in settled.values()):
        notes += (f"Secrets are looked for in {MOUNTED}: --secrets DIR names another place",)
    return FileEntries(entries=settled, notes=notes)
