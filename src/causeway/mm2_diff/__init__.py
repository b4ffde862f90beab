"""Compares how MirrorMaker 2 and Causeway use one file, for users who switch."""

from causeway.mm2_diff.comparison import Comparison, compare
