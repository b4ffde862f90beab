"""The partitions of one link: found, claimed, given to lanes, and their progress."""

from causeway.daemon.partitions import discovery, routing
from causeway.daemon.partitions.claims import (
    Behind,
    assignment,
    places_behind,
    treatments_of,
)
from causeway.daemon.partitions.deciding import decide, transform_change
from causeway.daemon.partitions.decisions import (
    Adopt,
    Begin,
    BeginBehind,
    Candidate,
    Decision,
    GoByKey,
    GoOn,
    IfSame,
    Offsets,
    PassOver,
    RunOptions,
    Stop,
    Wish,
)
from causeway.daemon.partitions.discovery import Found
from causeway.daemon.partitions.others import OthersHere, compared, find_place
from causeway.daemon.partitions.outlets import led_topics
from causeway.daemon.partitions.readings import Readings
from causeway.daemon.partitions.reconcile import Reconciler
from causeway.daemon.partitions.registry import Registry
from causeway.daemon.partitions.rows import Row
from causeway.daemon.partitions.tally import Recent, TransformTally
