"""Lanes on Spark: its context and their jobs, kept alive; which Java; quick starts."""
