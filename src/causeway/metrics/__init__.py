"""The figures of a running driver, for Prometheus."""

from causeway.metrics.catalogue import METRICS, SECTIONS
from causeway.metrics.collector import text
