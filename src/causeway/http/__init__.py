"""The HTTP server of a driver: page, API, probes, metrics, and the paths of Kafka Connect."""

from causeway.http.server import Serving, served
