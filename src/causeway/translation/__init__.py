"""Translates offsets between the source and the target of a link, in both directions.

Consumers that keep their own offsets:

    from causeway.formats import load
    from causeway.translation import Question, translate

    settings = load(Path("mm2.properties"))
    (answer,) = translate(settings, [Question(topic="orders", partition=0, offset=1500)])
    answer.exact, answer.places[0].offset

The answers come only from the clusters; no driver needs to run. The pairs and offset maps of the
progress topic show where records went (docs/decisions/0005), and the logs show the rest. The driver
translates the offsets of groups with the same look-ups, from its maps in memory (OffsetTranslator).
"""

from causeway.translation.answers import translate
from causeway.translation.both_ways import GroupsBothWays
from causeway.translation.course import (
    Course,
    CourseKey,
    CourseOffsets,
    group_offsets,
    inexact,
    offsets_to_translate,
)
from causeway.translation.reverse import BeforeFailback
from causeway.translation.translator import OffsetTranslator
from causeway.translation.unread import UnreadRecords
from causeway.translation.values import (
    Answer,
    MappedOffset,
    OffsetNote,
    Question,
    answer_json,
    read_questions,
)
