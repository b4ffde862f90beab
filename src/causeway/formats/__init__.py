"""Files of settings: property files of MirrorMaker 1 and 2, causeway.yaml, Strimzi's resources, and
the connectors of a Connect cluster.

`load` reads each form. The parsers of the forms are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from causeway.formats.loading import Form, default_form, is_yaml, load, read_entries

if TYPE_CHECKING:
    from causeway.formats.causeway_yaml.document import YamlEntry
    from causeway.formats.causeway_yaml.reference import schema_text
    from causeway.formats.connectors import read_connectors
    from causeway.formats.conversion import Converted, convert
    from causeway.formats.mirror_maker1 import load_mm1
    from causeway.formats.mm2 import load_mm2, settings_of
    from causeway.formats.properties import load_properties, read_properties, resolve, to_properties

_LAZY = {
    "YamlEntry": "causeway_yaml.document",
    "read_connectors": "connectors",
    "Converted": "conversion",
    "convert": "conversion",
    "load_mm1": "mirror_maker1",
    "load_mm2": "mm2",
    "load_properties": "properties",
    "read_properties": "properties",
    "resolve": "properties",
    "schema_text": "causeway_yaml.reference",
    "settings_of": "mm2",
    "to_properties": "properties",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
