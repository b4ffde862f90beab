"""Spark for lanes and stages: its context, its jobs, and its settings."""

from causeway.daemon.spark.context import Spark, not_importable
from causeway.daemon.spark.engine import Engine, Stages
from causeway.daemon.spark.environment import archive_option, cores_of, wanted_lanes
