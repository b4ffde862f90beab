"""Recovery: finds the position of a flow in the target's log and in the source's log."""

from causeway.relay.recovery.preserved import REFILL
from causeway.relay.recovery.resume import LossError, Resumption, recover
from causeway.relay.recovery.survey import (
    Damage,
    PartitionLeader,
    RecoveryRequest,
    ResumedOutlet,
    TooEarlyError,
)
