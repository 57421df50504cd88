"""The HTML of Telegram's Bot API (https://core.telegram.org/bots/api#html-style). Pure."""

from collections.abc import Sequence
from html import escape

from sessions_app.platforms.rendering.renderer import Dialect
from sessions_app.platforms.rendering.spans import Mark, Signs, Span, plain_text
from sessions_app.platforms.rendering.splitter import utf16_length


class TelegramHtml(Dialect):
    """Telegram's HTML. Its length limit counts the text without tags."""

    signs = Signs(named_hosts=True)

    _TAGS = {"bold": "b", "italic": "i", "strike": "s", "code": "code", "quote": "blockquote"}

    def write(self, spans: Sequence[Span]) -> str:
        pieces: list[str] = []
        opened: list[tuple[Mark, str]] = []  # with their closing tags
        for span in spans:
            wanted = _allowed(span.marks)
            kept = 0
            while kept < min(len(opened), len(wanted)) and opened[kept][0] == wanted[kept]:
                kept += 1
            pieces += [closing for _, closing in reversed(opened[kept:])]
            del opened[kept:]
            for mark in wanted[kept:]:
                opening, closing = self._tags(mark)
                pieces.append(opening)
                opened.append((mark, closing))
            pieces.append(escape(span.text, quote=False))
        return "".join([*pieces, *(closing for _, closing in reversed(opened))])

    def measure(self, spans: Sequence[Span]) -> int:
        return utf16_length(plain_text(spans))

    def _tags(self, mark: Mark) -> tuple[str, str]:
        match mark.kind:
            case "link":
                return f'<a href="{escape(mark.value)}">', "</a>"
            case "pre" if mark.value:
                return f'<pre><code class="language-{escape(mark.value)}">', "</code></pre>"
            case "pre":
                return "<pre>", "</pre>"
            case kind:
                tag = self._TAGS[kind]
                return f"<{tag}>", f"</{tag}>"


def _allowed(marks: Sequence[Mark]) -> list[Mark]:
    """Return the marks that Telegram accepts together.

    It accepts no marks inside code, and code blocks only inside quotes. Code that is a link's text stays a link.
    """
    found: list[Mark] = []
    for mark in marks:
        if any(outer.kind == mark.kind for outer in found):
            continue
        if mark.kind == "pre" or (mark.kind == "code" and not any(outer.kind == "link" for outer in found)):
            return [*(outer for outer in found if outer.kind == "quote"), mark]
        if mark.kind != "code":
            found.append(mark)
    return found
