"""Strimzi's KafkaMirrorMaker2 resource as the entries of a property file.

 resource ─ document.py ─► values with their places ─ shape.py ─► the values of its fields
          ─ read.py, clusters.py ─► entries ─► formats/mm2.py

Passwords and certificates stay in their Secrets: entries refer to them (`secrets.py`).
"""
