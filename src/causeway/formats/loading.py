"""Loads a file of settings, whatever its form."""

from __future__ import annotations

from collections.abc import Mapping
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
    """Whether `path` is read as YAML, which JSON is a form of: by the end of its name."""
    return path.suffix.lower() in (".yaml", ".yml", ".json")


def is_resource(document: Fields) -> bool:
    """Whether `document` is a Kubernetes resource of any kind."""
    return not {"apiVersion", "kind"}.isdisjoint(document.values)


def default_form(path: Path) -> Form:
    """The form that `causeway convert` writes by default: of YAML a property file, of a property
    file a causeway.yaml."""
    return Form.PROPERTIES if is_yaml(path) else Form.CAUSEWAY


def load(path: Path, *, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings in `path`: causeway.yaml or Strimzi's KafkaMirrorMaker2 by the end of its name,
    else MirrorMaker 2's property file. No cluster is asked. Raises one ConfigError with all
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


def read_entries(path: Path) -> Mapping[str, Entry]:
    """The entries of a file of any form, with unresolved references and unchecked values. The
    contents of a resource's Secrets are left out. Raises ConfigError if there are no entries."""
    if not is_yaml(path):
        from causeway.formats.properties import read_properties

        return read_properties(path).entries
    from causeway.formats.causeway_yaml import read
    from causeway.formats.causeway_yaml.document import read_document
    from causeway.formats.connectors import read_connectors
    from causeway.formats.strimzi.read import read_resource
    from causeway.formats.strimzi.secrets import Secrets

    if (connectors := read_connectors(path)) is not None:
        return connectors.entries
    problems = Problems(str(path))
    document = read_document(path, problems)
    entries: Mapping[str, Entry]
    if is_resource(document):
        secrets = Secrets(directory=None, problems=Problems(str(path)))
        entries = read_resource(document, problems, secrets, carry=True).entries
    else:
        entries = read.read_entries(document, problems)
    if not entries:
        problems.raise_if_any()
    return entries
