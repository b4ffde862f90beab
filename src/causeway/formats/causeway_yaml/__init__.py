"""causeway.yaml: the settings of a property file in a form of our own.

 causeway.yaml ─ document.py ─► values with their places ─ read.py ─► entries ─► formats/mm2.py
 entries ─ write.py ─► causeway.yaml          entries ─ properties.py ─► property file

Each leaf of the form is one key of keys.py (`shape.py`). Types, defaults, checks, `${...}` and the
rules for secrets are those of the property file.
"""
