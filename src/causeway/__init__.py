"""Causeway mirrors topics between Apache Kafka clusters."""

__version__ = "0.1.0"
