"""The figures of a running driver, for Prometheus."""

from causeway.metrics.catalogue import SECTIONS, Metric, metrics
from causeway.metrics.collector import text
