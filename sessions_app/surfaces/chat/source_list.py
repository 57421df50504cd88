"""The list of sources below an answer, with links only to addresses that are safe to open. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from audit_app.kernel.host_names import in_ascii
from audit_app.kernel.shorten import one_line
from sessions_app.conversation.citations import Citation, listed
from sessions_app.platforms.rendering.spans import Signs, plain_text, read_markdown

_LONGEST_QUOTE = 200
_SIGNS = Signs(bullet="- ", aligned_tables=False)


@dataclass(frozen=True)
class ShownSource:
    """A source.

    href, host: empty if it has no address that a browser should open.
    kind: label of such a source.
    """

    number: int
    title: str
    quote: str
    href: str = ""
    host: str = ""
    kind: str = ""


def shown_sources(citations: Iterable[Citation]) -> tuple[ShownSource, ...]:
    """Return each source once, by number."""
    return tuple(_shown(citation) for citation in listed(citations))


def _shown(citation: Citation) -> ShownSource:
    quote = one_line(plain_text(read_markdown(citation.quote, _SIGNS)), _LONGEST_QUOTE)
    title = " ".join(citation.title.split())
    host = _host(citation.uri)
    if host:
        return ShownSource(citation.number, title, quote, href=citation.uri, host=host)
    return ShownSource(citation.number, title, quote, kind=_KINDS.get(citation.uri.partition(":")[0], ""))


_KINDS = {"memory": "memory", "artifact": "file", "attachment": "attached file"}


def _host(uri: str) -> str:
    """Return the host of a web address in ASCII, "" for other addresses and for those that disguise their host."""
    try:
        parts = urlsplit(uri)
        host = parts.hostname or ""
    except ValueError:
        return ""
    is_plain = parts.scheme in ("http", "https") and parts.username is None and uri.isprintable() and " " not in uri
    return in_ascii(host) if is_plain and "\\" not in uri else ""
