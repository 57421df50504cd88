"""Converts HTML to Markdown for a model: the main content of a page, and its links. Pure.

Imported by path when the first page is converted: its dependencies take seven megabytes per process.
"""

import re
from urllib.parse import urljoin

from bs4 import BeautifulSoup, Tag
from bs4.dammit import EncodingDetector
from markdownify import MarkdownConverter

from audit_app.kernel.html_markup import closed
from tools_app.network.page_text import Readable

_NOT_CONTENT = """
    script style noscript template nav footer svg canvas iframe object embed video audio select button dialog
"""
# A <main> or <article> with less text than this is a placeholder; the whole page is used instead.
_LEAST_MAIN_CHARACTERS = 200
_MAX_TITLE_CHARACTERS = 300
_MAX_LINKS, _MAX_LINKS_SEEN, _MAX_LINK_CHARACTERS, _MAX_ADDRESS_CHARACTERS = 200, 400, 150, 1_000
# Longer pages are truncated: a million characters take seconds to parse.
_MAX_HTML_CHARACTERS = 1_000_000


def find_encoding(body: bytes) -> str | None:
    """Return the encoding that the page declares near its beginning."""
    return EncodingDetector.find_declared_encoding(body[:4096], is_html=True)


def read(html: str, url: str) -> Readable:
    """Return the content of the page. url: base of relative links."""
    soup = BeautifulSoup(closed(html, _MAX_HTML_CHARACTERS), "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    content = _main_part(soup)
    _make_links_absolute(content, url)
    links = _links(content)
    return Readable(title[:_MAX_TITLE_CHARACTERS], _markdown(content), len(html) > _MAX_HTML_CHARACTERS, links)


def _main_part(soup: BeautifulSoup) -> Tag:
    """Return the main content of the page, without elements that are for browsers only."""
    # Elements become empty, and links lose their address: to remove one from among many takes time for each of them.
    for tag in soup.find_all([*_NOT_CONTENT.split(), "head", "title", "img"]):
        if not tag.decomposed:  # with one around it
            text = str(tag.get("alt") or "") if tag.name == "img" else ""
            tag.clear(decompose=True)
            tag.name = "span"
            tag.append(text)
    for name in ("main", "article"):
        part = soup.find(name)
        if isinstance(part, Tag) and len(part.get_text(strip=True)) >= _LEAST_MAIN_CHARACTERS:
            return part
    return soup


def _make_links_absolute(content: Tag, url: str) -> None:
    for link in content.find_all("a", href=True):
        try:
            target = urljoin(url, str(link["href"]))
        except ValueError:
            target = ""
        if target.startswith(("http://", "https://")) and target.partition("#")[0] != url.partition("#")[0]:
            link["href"] = target
        else:
            del link["href"]


def _links(content: Tag) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for link in content.find_all("a", href=True, limit=_MAX_LINKS_SEEN):
        address = str(link["href"])
        text = " ".join(link.get_text(" ", strip=True).split())[:_MAX_LINK_CHARACTERS]
        if len(address) <= _MAX_ADDRESS_CHARACTERS and not found.get(address):
            found[address] = text
        if len(found) == _MAX_LINKS:
            break
    return tuple((text, address) for address, text in found.items())


def _markdown(content: Tag) -> str:
    try:
        text = str(MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(content))
    except RecursionError:  # the page is nested too deeply for the converter
        text = content.get_text("\n", strip=True)
    lines = (line.rstrip() for line in text.splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
