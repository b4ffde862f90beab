"""Transforms, worked out: a folder each, and the records to try them with."""
