"""Compares what MirrorMaker 2 and Causeway do with one file, for users who switch."""

from causeway.mm2_diff.behaviour import BehaviourDifference
from causeway.mm2_diff.comparison import Comparison, compare
from causeway.mm2_diff.keys import KeyEffect, KeyUse
