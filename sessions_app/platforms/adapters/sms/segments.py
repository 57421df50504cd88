"""The size of texts in SMS segments (3GPP TS 23.038), and the plain text that needs the fewest of them. Pure."""

from collections.abc import Sequence

from sessions_app.platforms.rendering.renderer import PlainText
from sessions_app.platforms.rendering.spans import Span, plain_text
from sessions_app.platforms.rendering.splitter import FILL, utf16_length

# The characters of a joined segment: in the GSM alphabet, and if one character of the message is outside of it.
_GSM_UNITS, _UCS2_UNITS = 153, 67
_BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿"
    "abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENDED = frozenset("^{}\\[~]|€\f")  # each takes two places
_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛", "'"),
        **dict.fromkeys("“”„‟«»", '"'),
        **dict.fromkeys("‐‑‒–—―─", "-"),
        **dict.fromkeys("\u00a0\u2009\u202f", " "),
        "…": "...",
        "•": "-",
        "☐": "[ ]",
        "☑": "[x]",
        "`": "'",
    }
)


def units(text: str) -> int:
    """Return the size of a text in units of which a segment takes 153."""
    if all(character in _BASIC or character in _EXTENDED for character in text):
        return len(text) + sum(character in _EXTENDED for character in text)
    return -(-utf16_length(text) * _GSM_UNITS // _UCS2_UNITS)


def limit_of(segments: int) -> int:
    """Return the limit for parts of that many segments, which the splitter fills to its share."""
    return int(segments * _GSM_UNITS / FILL) + 1


class SmsText(PlainText):
    """Plain text with the punctuation of typewriters: one typographic mark more than doubles the segments."""

    def read(self, markdown: str) -> tuple[Span, ...]:
        return tuple(Span(span.text.translate(_TYPOGRAPHY), span.marks) for span in super().read(markdown))

    def measure(self, spans: Sequence[Span]) -> int:
        return units(plain_text(spans))
