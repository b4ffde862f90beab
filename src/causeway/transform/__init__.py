"""Spark SQL on the way: what becomes of the records of some topics, between source and target."""
