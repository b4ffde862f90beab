"""Recovery: finds the position of a flow in the target's log, and in the source's."""

from causeway.relay.recovery.damage import Damage
from causeway.relay.recovery.resume import LossError, ResumedOutlet, Resumption, recover
from causeway.relay.recovery.survey import PartitionLeader, RecoveryRequest, TooEarlyError
