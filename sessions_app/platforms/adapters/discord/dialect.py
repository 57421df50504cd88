"""The Markdown of Discord, which has no tables (docs.discord.com, reference, message formatting). Pure."""

import re
from collections.abc import Sequence
from itertools import groupby

from sessions_app.platforms.rendering.renderer import Dialect
from sessions_app.platforms.rendering.spans import Mark, Signs, Span

_SIGNS = {"bold": "**", "italic": "*", "strike": "~~"}
_SPECIAL = re.compile(r"[\\*_~`|<]|^(?:[#>]|-#)", re.MULTILINE)


class DiscordMarkdown(Dialect):
    """Discord's Markdown, with everything escaped that is only text."""

    signs = Signs(bullet="- ")

    def write(self, spans: Sequence[Span]) -> str:
        pieces = []
        for is_quote, group in groupby(spans, lambda span: any(mark.kind == "quote" for mark in span.marks)):
            text = "".join(map(_written, group))
            pieces.append("\n".join(f"> {line}" for line in text.split("\n")) if is_quote else text)
        return "".join(pieces)


def _written(span: Span) -> str:
    code = next((mark for mark in span.marks if mark.kind in ("pre", "code")), None)
    if code and code.kind == "pre":
        content = span.text.replace("```", "`\u200b``")
        return f"```{code.value}\n{content}\n```"
    body = span.text.strip()
    if not body:
        return span.text
    lead, trail = span.text[: span.text.index(body)], span.text[span.text.index(body) + len(body) :]
    text = f"`{body.replace('`', 'ˋ')}`" if code else _SPECIAL.sub(lambda sign: f"\\{sign[0]}", body)
    for mark in reversed(span.marks):
        text = _marked(text, mark)
    return f"{lead}{text}{trail}"


def _marked(text: str, mark: Mark) -> str:
    if mark.kind == "link":
        return f"[{text}](<{mark.value}>)"
    sign = _SIGNS.get(mark.kind, "")
    return f"{sign}{text}{sign}"
