"""Translates offsets between source and target, for tasks, command and API."""
