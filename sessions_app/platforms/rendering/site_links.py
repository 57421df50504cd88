"""Links to pages of this installation, which have no meaning in a chat of a platform without its address. Pure."""

import re
from dataclasses import replace

from sessions_app.platforms.rendering.renderer import MarkdownSource

# Code, which stays as it is, or a link whose address is a path.
_LINK = re.compile(r"`[^`\n]*`|(?<![!\\])\[(?P<text>[^\[\]\n]+)\]\((?P<path>/(?!/)[^\s()]*)\)")


def with_address(markdown: str, address: str) -> str:
    """Return the Markdown with the address before the path of each link; without an address, with its text alone."""
    if "](/" not in markdown:
        return markdown
    source = MarkdownSource()
    spans = source.read(markdown)
    return source.write(
        [
            span if span.marks else replace(span, text=_LINK.sub(lambda link: _link(link, address), span.text))
            for span in spans
        ]
    )


def _link(link: re.Match[str], address: str) -> str:
    if link["text"] is None:
        return link[0]
    return f"[{link['text']}]({address}{link['path']})" if address else link["text"]
