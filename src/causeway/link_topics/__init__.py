"""What a link keeps in topics of its target: its progress, its offset maps and its directives."""

from causeway.link_topics.directive_log import (
    WRITE_DIRECTIVES,
    ActiveDirectives,
    DirectiveLog,
    WrittenDirectives,
    active_directives,
    write_directives,
)
from causeway.link_topics.directive_plans import (
    PROMOTION_HOLD_S,
    cuts_of,
    finish_end,
    plan_directive,
    plan_end,
    plan_failback,
    plan_removal,
    promotions_under_way,
    release_promotions,
    renew_promotion,
    withdraw_promotion,
)
from causeway.link_topics.directive_records import decode_directive, encode_directive
from causeway.link_topics.directives import (
    MOST_RATE,
    THE_LINK,
    AnyDirective,
    BeginDirective,
    ClaimStart,
    Cut,
    CutoverDirective,
    CutPoint,
    Directive,
    DirectiveChange,
    DirectiveKey,
    DirectiveKind,
    DirectivePlan,
    EndDirective,
    FenceAcl,
    FenceDirective,
    Hold,
    LinkDirectives,
    MirrorDirective,
    OriginDirective,
    PauseDirective,
    RestartDirective,
    Scope,
    StepDownDirective,
    ThrottleDirective,
    directive_as_json,
)
from causeway.link_topics.entries import (
    EVENTS,
    Deletion,
    DirectivesRecord,
    Entry,
    EventRecord,
    LeaseRecord,
    OffsetMapRecord,
    Outlet,
    PartitionProgress,
    RuleCounts,
    TaskRecord,
    Transformed,
    TransformRecord,
    Value,
)
from causeway.link_topics.offset_map import MOST_POINTS, OffsetMap, Span
from causeway.link_topics.other_links import OtherFeed, feeds_of_other_links
from causeway.link_topics.progress import (
    ClusterIds,
    LeadershipLostError,
    MapRecords,
    Maps,
    ProgressContents,
    ProgressTopic,
    ProgressWriter,
    offset_maps_of,
    read_progress,
    recognise,
)
from causeway.link_topics.progress_records import decode_entry, encode_entry
from causeway.link_topics.topic_log import KeyValue, TopicLog
