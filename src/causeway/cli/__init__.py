"""The command line: thin commands over `causeway.operate` and `causeway.daemon`."""
