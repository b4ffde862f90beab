"""The operations of the command line. Each package is one product; results are plain values."""
