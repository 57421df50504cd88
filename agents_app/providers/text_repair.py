"""Makes streamed text storable: joins split surrogate pairs and replaces characters that databases reject."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def repair(text: str) -> str:
    """Return the text with surrogate pairs joined, and lone surrogates and NUL replaced."""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", _REPLACEMENT)


def sendable(text: str) -> str:
    """Return the text without lone surrogates, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class StreamRepair:
    """`repair` for streamed text: half a surrogate pair at the end of a piece is held back for the next piece."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        if not self._half and text.isascii():
            return text.replace("\0", _REPLACEMENT) if "\0" in text else text
        text = self._half + text
        self._half = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return repair(text)

    def finish(self) -> str:
        """Return the replacement of a half that is still held back."""
        half, self._half = self._half, ""
        return _REPLACEMENT if half else ""
