"""Formats of settings files: MirrorMaker 1 and 2 properties, causeway.yaml, Strimzi resources."""
