"""Reasoning that a model writes into its text, between tags such as `<think>`: splits it from the answer. Pure.

Servers without a parser for the reasoning of a model send it so. Tags count at the beginning of a response alone: what
an answer contains later is text.
"""

BY_TAGS, PREFILLED, OFF = "", "prefilled", "off"
_TAGS = (("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]"))


class InlineReasoning:
    """The split of a streamed text: `feed` each piece, then `finish`. Both return (reasoning, text).

    mode: one of those above. With PREFILLED the server has written the opening tag itself and does not send it.
    """

    def __init__(self, mode: str = BY_TAGS) -> None:
        self._is_text = mode == OFF  # from here on
        self._is_assumed = mode == PREFILLED  # no tag has proved yet that it is reasoning
        self._closing = [closing for _, closing in _TAGS] if mode == PREFILLED else []
        self._seen: list[str] = []  # assumed reasoning
        self._had_any = False
        self._held = ""

    def feed(self, piece: str) -> tuple[str, str]:
        if self._is_text:
            return "", piece
        self._held += piece
        reasoning = ""
        while True:
            if self._closing:
                inside, is_closed = self._take_inside()
                reasoning += inside
                if not is_closed:
                    return reasoning, ""
            if (tag := self._opening_tag()) is None:
                return reasoning, self._take_text()
            if not tag:
                return reasoning, ""
            self._closing = [dict(_TAGS)[tag]]
            self._held = self._held.lstrip()[len(tag) :]

    def finish(self, *, is_answered: bool = True) -> tuple[str, str]:
        """Return what is held back. is_answered: the response is whole and calls no tools.

        Such a response without the closing tag that PREFILLED expects was no reasoning: it is the text.
        """
        held, self._held = self._held, ""
        if not self._closing:
            return "", "" if self._had_any and not held.strip() else held
        if self._is_assumed and is_answered:
            return held, "".join((*self._seen, held))
        return held, ""

    def _take_inside(self) -> tuple[str, bool]:
        """Return the reasoning up to the closing tag, and whether the tag has come.

        A beginning of the tag at the end is held back for the next piece.
        """
        if self._is_assumed and not self._seen and (tag := self._opening_tag()) is not None:
            if not tag:
                return "", False
            self._held = self._held.lstrip()[len(tag) :]
        places = [(at, tag) for tag in self._closing if (at := self._held.find(tag)) >= 0]
        if places:
            return self._close(*min(places)), True
        kept = max(_overlap(self._held, tag) for tag in self._closing)
        inside, self._held = self._held[: len(self._held) - kept], self._held[len(self._held) - kept :]
        if self._is_assumed and inside:
            self._seen.append(inside)
        return inside, False

    def _close(self, at: int, tag: str) -> str:
        """End the reasoning at a closing tag and return the rest of it."""
        inside, self._held = self._held[:at], self._held[at + len(tag) :]
        self._closing, self._is_assumed, self._had_any, self._seen = [], False, True, []
        return inside

    def _opening_tag(self) -> str | None:
        """Return the tag that the held text begins with; empty if it may become one, None if it cannot."""
        begin = self._held.lstrip()
        for tag, _ in _TAGS:
            if begin.startswith(tag):
                return tag
        return "" if any(tag.startswith(begin) for tag, _ in _TAGS) else None

    def _take_text(self) -> str:
        text, self._held, self._is_text = self._held, "", True
        return text.lstrip() if self._had_any else text


def _overlap(text: str, tag: str) -> int:
    """Return the length of the longest end of the text that begins the tag."""
    return next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:size])), 0)
