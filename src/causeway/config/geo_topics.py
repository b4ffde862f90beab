"""Topics that people choose while a mirror runs."""

from __future__ import annotations


class ChosenTopics:
    """The names of a link's, on its source, as last read of its directives (control/geo_topics.py).

    One is shared by all who hold a link's settings, so that what is chosen counts everywhere at
    once. Where a driver is among them, it alone replaces `names`: it sees by them what it has yet
    to do. Replaced as a whole: whoever reads it needs no lock.
    """

    __slots__ = ("names",)

    def __init__(self, names: frozenset[str] = frozenset()) -> None:
        self.names = names
