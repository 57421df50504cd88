"""Makes streamed text storable: joins characters that a server split, replaces what no database takes."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def mend(text: str) -> str:
    """The text with surrogate pairs joined, and lone surrogates and NUL replaced."""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", _REPLACEMENT)


class StreamMender:
    """`mend` for text that comes in pieces: half a character at the end of a piece waits for the next one."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        if not self._half and text.isascii():
            return text.replace("\0", _REPLACEMENT) if "\0" in text else text
        text = self._half + text
        self._half = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return mend(text)

    def finish(self) -> str:
        """What stands for a half whose other half never came."""
        half, self._half = self._half, ""
        return _REPLACEMENT if half else ""
