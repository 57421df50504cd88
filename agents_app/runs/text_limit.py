"""The limit of the text of one model call: its length, and repetitions at its end. Pure."""

# A text ends with a repetition if its last characters consist of one piece, at most `_LONGEST_PIECE` long, at least
# `_LEAST_TIMES` in a row and over `_LEAST_LENGTH` characters: more than tables, code and lists repeat exactly.
_LONGEST_PIECE = 2_000
_LEAST_TIMES = 20
_LEAST_LENGTH = 20_000
_LONGEST_REPETITION = max(_LEAST_LENGTH, _LONGEST_PIECE * _LEAST_TIMES)
_CHECK_EVERY = 1_000


class TextLimit:
    """Takes the text of a model call piece by piece.

    reached: empty, else too_long (there was more text than `characters`) or repeats (it ends with a repetition).
    """

    def __init__(self, characters: int) -> None:
        self.reached = ""
        self._left = characters
        self._end = ""  # of the text, as far as a repetition can reach back
        self._new: list[str] = []  # the pieces after that
        self._unchecked = 0

    def take(self, piece: str) -> str:
        """Return the part of the piece that is within the limit."""
        if len(piece) > self._left:
            self.reached, piece = "too_long", piece[: self._left]
        self._left -= len(piece)
        self._new.append(piece)
        self._unchecked += len(piece)
        if self._unchecked >= _CHECK_EVERY and not self.reached:
            self._end = "".join((self._end, *self._new))[-_LONGEST_REPETITION:]
            self._new, self._unchecked = [], 0
            if ends_with_repetition(self._end):
                self.reached = "repeats"
        return piece


def ends_with_repetition(text: str) -> bool:
    """Return whether the text ends with the same piece again and again. Takes a millisecond at most."""
    if len(text) < _LEAST_LENGTH:
        return False
    # If the text repeats a piece, its last characters are found again where that piece was before.
    last = text[-_LONGEST_PIECE:]
    before = text.rfind(last, len(text) - 2 * _LONGEST_PIECE, len(text) - 1)
    if before < 0:
        return False
    period = len(text) - _LONGEST_PIECE - before
    repeated = text[-max(_LEAST_LENGTH, period * _LEAST_TIMES) :]
    return len(repeated) >= period * _LEAST_TIMES and repeated[period:] == repeated[:-period]
