"""The command line: thin commands over `causeway.operate`, `causeway.daemon` and `causeway.geo`."""
