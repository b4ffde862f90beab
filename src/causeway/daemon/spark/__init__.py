"""Spark for lanes and stages: its context, its jobs, and its settings."""

from causeway.daemon.spark.conf import cores_of, wanted_lanes
from causeway.daemon.spark.context import Spark, not_importable
from causeway.daemon.spark.engine import Engine
from causeway.daemon.spark.environment import archive_option
from causeway.daemon.spark.stages import Ended, Stages
