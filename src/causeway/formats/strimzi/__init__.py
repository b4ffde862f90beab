"""Strimzi's KafkaMirrorMaker2 resource as the entries of a property file.

 resource ─ document.py ─► values with their places ─ fields.py ─► what shape.py allows
          ─ read.py: clusters.py, mirrors.py ─► entries ─► formats/mm2.py

Passwords and certificates stay in their Secrets: entries refer to them (`secrets.py`).
"""
