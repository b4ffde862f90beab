"""All that a link mirrors besides records. A module observes one thing, plans purely, applies."""

from causeway.control import (
    acls,
    claim_checks,
    collisions,
    configs,
    fences,
    geo_topics,
    groups,
    mm2_offsets,
    open_transactions,
    preserving,
    required_apis,
    routed_topics,
    topic_changes,
    topic_configs,
    topics,
)
from causeway.control.acls import AclPlan
from causeway.control.claim_checks import OnDataLoss
from causeway.control.configs import ConfigPlan, SyncConfigs
from causeway.control.fences import DENY_WRITE, FencePlan, Sharer
from causeway.control.groups import (
    ChosenGroups,
    Commits,
    GroupCommits,
    LeftOutGroup,
    LeftOutReason,
    Translated,
    TranslatedOffset,
    UnreadRecord,
)
from causeway.control.mm2_offsets import Copied, MirrorMakerOffsets, UnconfirmedCopy
from causeway.control.mm2_topics import (
    Checkpoint,
    Heartbeats,
    OffsetSync,
    OffsetSyncs,
    checkpoint_records,
    read_checkpoints,
)
from causeway.control.open_transactions import Ends, Held
from causeway.control.preserving import Filling, Way
from causeway.control.required_apis import NEEDS, ApiNeed, MissingApi
from causeway.control.routed_topics import RoutedTopic, RouteNeed
from causeway.control.topics import (
    AlterTopicConfigs,
    Change,
    CreateTopic,
    GrowTopic,
    LeftOut,
    MirroredTopic,
    ObservedTopics,
    TopicPlan,
    TopicProblem,
)
from causeway.control.transforms import (
    Transform,
    Transforms,
    only_treated,
    treatment_steps,
    with_treatments,
    without_place,
)
