"""One HTTP server in the driver: metrics, the REST API, Connect's paths, probes."""
