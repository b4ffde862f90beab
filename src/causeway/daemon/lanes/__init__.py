"""The lanes of this process, and which of them relays which partition."""

from causeway.daemon.lanes.fleet import MARGIN, Fleet
from causeway.daemon.lanes.lookups import LookUps
from causeway.daemon.lanes.placing import without_lane
from causeway.daemon.lanes.tracked import Key, Standing, plus

__all__ = ["MARGIN", "Fleet", "Key", "LookUps", "Standing", "plus", "without_lane"]
