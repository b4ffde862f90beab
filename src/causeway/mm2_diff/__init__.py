"""Compares what MirrorMaker 2 and Causeway do with one file, for users who switch."""

from causeway.mm2_diff.comparison import Comparison, compare
