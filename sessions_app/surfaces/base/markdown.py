"""Rendering of an answer's Markdown as HTML that is safe to put into a page.

Raw HTML stays text, remote images become links, and the output passes an allow-list.
"""

import re
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from audit_app.kernel.host_names import in_ascii
from sessions_app.conversation.citations import marked
from sessions_app.surfaces.base.highlight import highlighted
from sessions_app.surfaces.base.linkify import pieces
from sessions_app.surfaces.base.maths import add_maths
from sessions_app.surfaces.base.sanitizer import sanitised
from sessions_app.surfaces.base.small_text import add_small_text

# Prefix of every stored rendering. Change it with the rules below, so that stored renderings are made again.
VERSION = "<!--m4-->"

_LONGEST_TEXT = 200_000
_LONG_QUERY = 120
_LEVELS_ABOVE = 2  # the page's title is h1, each message has an h2
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}", re.ASCII)
_DIRECTED = {"paragraph_open", "heading_open", "bullet_list_open", "ordered_list_open", "blockquote_open", "table_open"}
_ALIGNMENT = re.compile(r"text-align:(left|center|right)")

_CODE_BUTTONS = (
    '<button type="button" class="wrap-code" aria-pressed="false">Wrap</button>'
    '<button type="button" class="copy-code">Copy</button>'
)

Env = MutableMapping[str, Any]


def render(text: str, env: Env | None = None) -> SafeString:
    """Return the sanitised HTML of a Markdown text.

    env: shared between the blocks of one text, so that later blocks know the link references of earlier ones. Its
    optional `cited` returns the text to show for the id in a citation marker, None to leave the marker as it is.
    """
    if len(text) > _LONGEST_TEXT:
        return format_html("<pre>{}</pre>", text)
    return mark_safe(sanitised(parser.render(text, {} if env is None else env)))  # noqa: S308 - sanitised


class _Renderer(RendererHTML):
    """The renderer: one method for each type of token. Each escapes what comes from the text."""

    def heading_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        return f"<{_lowered(tokens[idx].tag)}{self.renderAttrs(tokens[idx])}>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        return f"</{_lowered(tokens[idx].tag)}>\n"

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        match = _LANGUAGE.match(tokens[idx].info.strip())
        return _code(tokens[idx].content, match.group() if match else "")

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        return _code(tokens[idx].content, "")

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        table = f"<table{self.renderAttrs(tokens[idx])}>\n"
        return '<div class="table" role="group" aria-label="Table" tabindex="0">' + table

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        return _cell(tokens[idx])

    td_open = th_open

    def list_item_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        if "checked" not in tokens[idx].meta:
            return "<li>"
        label = "done" if tokens[idx].meta["checked"] else "to do"
        state = "task-done" if tokens[idx].meta["checked"] else "task-open"
        return f'<li class="task"><span class="{state}" role="img" aria-label="{label}"></span> '

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        env["open_link"] = idx
        href = str(tokens[idx].attrs.get("href", ""))
        return f'<a href="{escape(href)}" target="_blank">'

    def link_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        opening = env.pop("open_link")
        href = str(tokens[opening].attrs.get("href", ""))
        shown = self.renderInlineAsText(tokens[opening + 1 : idx], options, env)
        return "</a>" + _hidden_target(href, shown)

    def math_inline(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        return f'<span class="math">{escape(tokens[idx].content)}</span>'

    def math_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        return f'<div class="math">{escape(tokens[idx].content)}</div>\n'

    def cited(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        return f'<span class="cited">[{escape(tokens[idx].content)}]</span>'

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Env) -> str:
        source = str(tokens[idx].attrs.get("src", ""))
        name = self.renderInlineAsText(tokens[idx].children, options, env) or "image"
        host = _host(source)
        if not host:
            return str(format_html('<span class="image">{}</span>', name))
        if "open_link" in env:  # links do not nest
            return str(format_html('<span class="image">{} ({})</span>', name, host))
        return str(format_html('<a class="image" href="{}" target="_blank">{} ({})</a>', source, name, host))


def make_parser() -> MarkdownIt:
    """Return a new parser with the rules of the page."""
    made = MarkdownIt("gfm-like2", {"html": False, "alerts": False, "linkify": False}, renderer_cls=_Renderer)
    add_maths(made)
    add_small_text(made)
    made.core.ruler.after("block", "directions", _detect_directions)
    made.core.ruler.after("inline", "addresses", _link_addresses)
    made.core.ruler.after("addresses", "citations", _number_citations)
    return made


def _detect_directions(state: StateCore) -> None:
    """Let each top-level block have the writing direction of its own text. What is inside has that of its block."""
    for token in state.tokens:
        if token.level == 0 and token.type in _DIRECTED:
            token.attrSet("dir", "auto")


def _number_citations(state: StateCore) -> None:
    """Replace citation markers by the numbers of their sources."""
    name_of: Callable[[UUID], str | None] | None = state.env.get("cited")
    if name_of is None:
        return
    for block in state.tokens:
        if block.type == "inline" and block.children and "[" in block.content:
            block.children = list(_with_citations(block.children, name_of))


def _with_citations(tokens: Sequence[Token], name_of: Callable[[UUID], str | None]) -> Iterator[Token]:
    for token in tokens:
        if token.type != "text":
            yield token
            continue
        for piece, ids in marked(token.content):
            names = [name_of(one) for one in ids]
            if not any(names):
                yield Token("text", "", 0, content=piece)
            else:
                shown = ", ".join(dict.fromkeys(name or str(one) for name, one in zip(names, ids, strict=True)))
                yield Token("cited", "", 0, content=shown)


def _link_addresses(state: StateCore) -> None:
    """Turn addresses in plain text into links."""
    for block in state.tokens:
        if block.type == "inline" and block.children and "://" in block.content:
            block.children = list(_with_links(block.children))


def _with_links(tokens: Sequence[Token]) -> Iterator[Token]:
    in_link = False
    for token in tokens:
        if token.type in ("link_open", "link_close"):
            in_link = token.type == "link_open"
        if in_link or token.type != "text":
            yield token
            continue
        for piece, is_address in pieces(token.content):
            text = Token("text", "", 0, content=piece)
            link = [Token("link_open", "a", 1, attrs={"href": piece}), text, Token("link_close", "a", -1)]
            yield from link if is_address else [text]


parser = make_parser()


def _lowered(tag: str) -> str:
    return f"h{min(int(tag[1]) + _LEVELS_ABOVE, 6)}"


def _code(source: str, language: str) -> str:
    head = f"<span>{escape(language)}</span>{_CODE_BUTTONS}"
    body = f'<pre tabindex="0"><code>{highlighted(source, language)}</code></pre>'
    return f'<div class="code"><div class="code-head">{head}</div>{body}</div>\n'


def _cell(token: Token) -> str:
    alignment = _ALIGNMENT.match(str(token.attrs.get("style", "")))
    return f'<{token.tag} class="align-{alignment.group(1)}">' if alignment else f"<{token.tag}>"


def _hidden_target(href: str, shown: str) -> str:
    """Return a note on what the text of a link hides: its host, and a long query, which can carry data."""
    host = _host(href)
    if not host:
        return ""
    hidden = [] if host in shown.lower() else [host]
    if len(urlsplit(href).query) > _LONG_QUERY:
        hidden.append("long query")
    return str(format_html(' <span class="whereto">({})</span>', ", ".join(hidden))) if hidden else ""


def _host(address: str) -> str:
    """Return the host of a web address in ASCII and lower case, "" for any other address."""
    try:
        parts = urlsplit(address)
        return in_ascii(parts.hostname or "") if parts.scheme in ("http", "https") else ""
    except ValueError:
        return ""
