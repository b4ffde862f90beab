"""The data path: the messages between the driver and its lanes, and the series of a partition."""

from causeway.relay import offset_lookup
from causeway.relay.control import (
    SECRET_VARIABLE,
    ControlClient,
    ControlServer,
    LaneConnection,
    new_secret,
)
from causeway.relay.messages import (
    Assign,
    Assignment,
    Clusters,
    Compression,
    Drain,
    Drained,
    FlowReport,
    Hello,
    LaneReport,
    Lease,
    LookedUp,
    Lookup,
    OutletWanted,
    Preserve,
    Rate,
    Renewed,
    Revoke,
    StageEnded,
    StageSpec,
    StageSpecs,
    StageWanted,
    Throttle,
    ToDriver,
    Trace,
    TreatmentStep,
)
from causeway.relay.offset_lookup import Becomes, Sought, unchanged
from causeway.relay.treatment import (
    Series,
    Topics,
    as_relayed,
    gone,
    partition_of,
    shares,
    steps_become,
    treat_batch,
    treatment_of,
)
