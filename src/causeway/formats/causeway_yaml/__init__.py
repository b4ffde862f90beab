"""causeway.yaml: the settings of a property file in a form of our own.

 causeway.yaml ─ document.py ─► values with their places ─ read.py ─► entries ─► formats/mm2.py
 entries ─ write.py ─► causeway.yaml          entries ─ properties.py ─► property file

Each leaf of the form is one key of keys.py (`shape.py`): types, defaults and checks are the
property file's, and so are `${...}` and what is kept secret.
"""
