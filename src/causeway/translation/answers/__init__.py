"""Exact places for consumers that keep their own offsets: from source to target, and back.

    from causeway.formats import load
    from causeway.translation.answers import Question, translate

    settings = load(Path("mm2.properties"))
    (answer,) = translate(settings, [Question(topic="orders", partition=0, offset=1500)])
    answer.exact, answer.places[0].offset

From the clusters alone: the progress topic's pairs and offset maps tell where records went
(docs/decisions/0005), and the logs what those leave out. No driver needs to run.
"""

from causeway.translation.answers.answers import translate
from causeway.translation.answers.values import Answer, Place, Question, Why, answer_json, as_json

__all__ = ["Answer", "Place", "Question", "Why", "answer_json", "as_json", "translate"]
