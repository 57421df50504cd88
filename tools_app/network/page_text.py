"""Converts the body of an HTTP response to text for a model: decodes it, and converts HTML to Markdown. Pure."""

import codecs
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib import import_module

_HTML = "tools_app.network.html_to_markdown"

# Python's codecs of the web's encodings. Others may be exploitably slow (punycode, idna) or not text encodings.
_CODEC_NAMES = """
    utf-8 utf-16 utf-16-le utf-16-be cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp866
    cp874 cp949 cp932 big5 big5hkscs gb2312 gbk gb18030 euc_jp euc_kr shift_jis iso2022_jp koi8-r koi8-u
    mac-roman tis-620
"""
_CODECS = {*_CODEC_NAMES.split(), *(f"iso8859-{part}" for part in range(2, 17))}
_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True)
class Readable:
    """Text of a page.

    is_cut: whether the page was longer.
    links: (text, address) of its links, each address once.
    """

    title: str
    text: str
    is_cut: bool = False
    links: tuple[tuple[str, str], ...] = ()


def read(body: bytes, *, media_type: str, charset: str | None, url: str, is_cut: bool = False) -> Readable:
    """Return the text of a body.

    media_type: guessed if empty.
    charset: as declared by the server, if any.
    url: base of relative links.
    is_cut: whether the body is truncated.
    """
    is_html = "html" in media_type or (not media_type and body.lstrip()[:1] == b"<")
    text = decode(body, charset=charset, is_html=is_html, is_cut=is_cut)
    found = import_module(_HTML).read(text, url) if is_html else Readable("", text.strip())
    return replace(found, is_cut=found.is_cut or is_cut)


def decode(body: bytes, *, charset: str | None, is_html: bool, is_cut: bool = False) -> str:
    """Return the body as text, by the first encoding that fits: byte order mark, declared charset, the page's own
    declaration, UTF-8; else Windows-1252.

    A truncated character at the end of a truncated body is dropped.
    """
    for name in _candidates(body, charset, is_html):
        try:
            return codecs.getincrementaldecoder(name)("strict").decode(body, not is_cut).removeprefix("\ufeff")
        except UnicodeDecodeError:
            continue
    return body.decode("cp1252", errors="replace")


def _candidates(body: bytes, charset: str | None, is_html: bool) -> Iterable[str]:
    yield from (name for mark, name in _BOMS.items() if body.startswith(mark))
    declared = import_module(_HTML).find_encoding(body) if is_html else None
    for label in (charset, declared):
        name = _codec(label)
        if name is not None:
            yield name
    yield "utf-8"


def _codec(label: str | None) -> str | None:
    try:
        name = codecs.lookup(label or "").name
    except (LookupError, ValueError):
        return None
    # The WHATWG encoding standard maps the labels of Latin-1 and ASCII to Windows-1252.
    name = "cp1252" if name in ("iso8859-1", "ascii") else name
    return name if name in _CODECS else None
