"""One side of a comparison: the records that are unpacked and not passed yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from causeway.cluster import Content
from causeway.errors import ProtocolError
from causeway.operate.verify.logs import Piece

# Replaces the headers of records in a batch that cannot be unpacked. Equal to no other headers.
UNREADABLE: dict[str, tuple[tuple[str, bytes | None], ...]] = {
    "source": (("of the source", None),),
    "target": (("of the target", None),),
}


class LogSide:
    """`contents` and `offsets` of the unpacked records; `index`: the number dropped before them.
    `unreadable` replaces each record of a batch that cannot be unpacked."""

    __slots__ = ("_next", "_pieces", "contents", "ended", "index", "offsets", "unreadable")

    def __init__(self, pieces: Iterator[Piece], name: str) -> None:
        self._pieces = pieces
        self._next: Piece | None = None
        self.unreadable: Content = (None, None, None, UNREADABLE[name])
        self.contents: list[Content] = []
        self.offsets: list[int] = []
        self.index = 0
        self.ended = False

    def piece(self) -> Piece | None:
        """The next whole piece, None at the end. Only while no unpacked record is left."""
        piece, self._next = self._next, None
        if piece is None:
            piece = next(self._pieces, None)
        self.ended = piece is None
        return piece

    def back(self, piece: Piece | None) -> None:
        """Returns a piece from `piece()`, to be unpacked."""
        self._next = piece
        self.ended = piece is None

    def passed(self, piece: Piece) -> None:
        self.index += piece.count

    def more(self, count: int, most_bytes: int) -> bool:
        """Unpacks until `count` records or `most_bytes` are there; False if there were no more."""
        before = len(self.contents)
        size = 0
        while len(self.contents) < count and size < most_bytes:
            piece = self.piece()
            if piece is None:
                break
            size += self._unpack(piece)
        return len(self.contents) > before

    def _unpack(self, piece: Piece) -> int:
        try:
            contents = piece.contents()
        except ProtocolError:
            contents = [self.unreadable] * piece.count
        self.contents += contents
        self.offsets += piece.offsets
        return sum(map(_memory_of, contents))

    def rest(self) -> int:
        """Passes all remaining records, and returns their number."""
        count = len(self.contents) + sum(piece.count for piece in self._pieces)
        self.drop(len(self.contents))
        self.ended = True
        return count

    def drop(self, count: int) -> None:
        self.index += count
        del self.contents[:count]
        del self.offsets[:count]


def size_of(content: Content) -> int:
    """Bytes of key and value."""
    return len(content[1] or b"") + len(content[2] or b"")


def _memory_of(content: Content) -> int:
    """Bytes with headers, which may be the larger part."""
    return size_of(content) + sum(len(name) + len(value or b"") for name, value in content[3])


def without_times(contents: Sequence[Content]) -> list[Content]:
    return [(None, *content[1:]) for content in contents]
