"""The server of a driver: page, API, probes, metrics, and Connect's paths."""

from causeway.http.server import Serving, served

__all__ = ["Serving", "served"]
