"""A running daemon's figures for Prometheus."""
