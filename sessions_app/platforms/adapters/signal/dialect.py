"""Signal's formatting: a plain text, and the ranges of its styles in UTF-16 code units. Pure."""

from collections.abc import Sequence

from sessions_app.platforms.rendering.renderer import PlainText
from sessions_app.platforms.rendering.spans import Signs, Span, plain_text
from sessions_app.platforms.rendering.splitter import utf16_length

_STYLES = {"bold": "BOLD", "italic": "ITALIC", "strike": "STRIKETHROUGH", "code": "MONOSPACE", "pre": "MONOSPACE"}
_SEPARATOR = "\f"  # never in a text: parsed Markdown has none


class SignalText(PlainText):
    """The text, and behind a form feed its styles as `start:length:STYLE`."""

    signs = Signs(aligned_tables=False)

    def write(self, spans: Sequence[Span]) -> str:
        styles, position = list[str](), 0
        for span in spans:
            length = utf16_length(span.text)
            names = dict.fromkeys(_STYLES[mark.kind] for mark in span.marks if mark.kind in _STYLES)
            styles += [f"{position}:{length}:{name}" for name in names]
            position += length
        text = plain_text(spans).replace(_SEPARATOR, "")
        return f"{text}{_SEPARATOR}{','.join(styles)}" if styles else text

    def measure(self, spans: Sequence[Span]) -> int:
        return len(plain_text(spans).encode("utf-8", "replace"))


def read_body(body: str) -> tuple[str, list[str]]:
    """Return the text and the styles of a rendered body."""
    text, _, styles = body.partition(_SEPARATOR)
    return text, styles.split(",") if styles else []
