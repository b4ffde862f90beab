"""The lanes of this process, and which of them relays which partition."""

from causeway.daemon.lanes.fleet import MARGIN, Fleet
from causeway.daemon.lanes.placing import without_lane
from causeway.daemon.lanes.tracked import Key, LaneLookups, ReportedPartition, plus
