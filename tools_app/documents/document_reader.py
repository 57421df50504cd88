"""The program that reads the text of one document (PDF, DOCX, XLSX, PPTX) within limits. Starts without Django.

Usage: document_reader.py <longest text>, with the document on standard input. Writes one JSON object: `text` with
`page_count` (pages, slides or sheets; null if unknown) and `is_cut`, or `problem`, or `is_other` for an archive that is
no document. A document that exceeds the limits of memory or time ends the process.
"""

import io
import json
import re
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile

_MEMORY = 512 * 1024 * 1024
_CPU_SECONDS = 15
_MOST_ENTRIES = 5_000
_MOST_BYTES = 64_000_000  # of what is unpacked
_MOST_DEPTH = 200
_MOST_PAGES = 300
_MOST_DIGITS = 6  # of a number of pages that a file states


class _Full(Exception):
    pass


class _Refused(Exception):
    pass


class _Other(Exception):
    pass


class _Text:
    """Collects text up to a length, and raises _Full behind it. page_count: of the whole document, if known."""

    def __init__(self, longest: int) -> None:
        self.page_count: int | None = None
        self._left = longest
        self._pieces: list[str] = []

    def add(self, piece: str) -> None:
        self._pieces.append(piece[: self._left])
        self._left -= len(piece)
        if self._left < 0:
            raise _Full

    def __str__(self) -> str:
        # A PDF may yield NUL and lone surrogates, which no database stores.
        whole = "".join(self._pieces).replace("\0", "").encode("utf-8", "replace").decode()
        lines = (line.rstrip() for line in whole.splitlines())
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


class _Package:
    """The parts of an Office file: a ZIP archive with XML."""

    def __init__(self, data: bytes) -> None:
        self._archive = ZipFile(io.BytesIO(data))
        self.names = self._archive.namelist()
        self._left = _MOST_BYTES
        if len(self.names) > _MOST_ENTRIES:
            raise _Refused(f"it has more than {_MOST_ENTRIES:,} parts")

    def parse(self, name: str, start: Callable[..., None], end: Callable[..., None], text: Callable[..., None]) -> None:
        """Call the functions for each element, by its name without namespace, and for each piece of text."""
        parser, depth = expat.ParserCreate(namespace_separator=" "), 0

        def begin(tag: str, attributes: dict[str, str]) -> None:
            nonlocal depth
            depth += 1
            if depth > _MOST_DEPTH:
                raise _Refused("its XML is nested too deeply")
            start(_local(tag), {_local(key): value for key, value in attributes.items()})

        def finish(tag: str) -> None:
            nonlocal depth
            depth -= 1
            end(_local(tag))

        parser.StartElementHandler, parser.EndElementHandler = begin, finish
        parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text, _refuse_doctype
        parser.Parse(self._read(name), True)

    def _read(self, name: str) -> bytes:
        with self._archive.open(name) as part:
            data = part.read(self._left + 1)  # as it is unpacked, whatever the archive claims
        self._left -= len(data)
        if self._left < 0:
            raise _Refused(f"it unpacks to more than {_MOST_BYTES // 1_000_000} MB")
        return data

    def numbered(self, pattern: str) -> list[str]:
        """Return the parts of a name with a number, in their order."""
        found = ((re.fullmatch(pattern, name), name) for name in self.names)
        return [name for _, name in sorted((int(match[1]), name) for match, name in found if match)]


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


def _refuse_doctype(*_: object) -> None:
    raise _Refused("its XML declares entities")


def _ignore(*_: object) -> None:
    pass


_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n"}


def _paragraphs(package: _Package, name: str, text: _Text) -> None:
    """Add the text of a part of a DOCX or PPTX: runs (`t`), breaks, paragraphs and cells of tables."""
    inside = False

    def start(tag: str, _: dict[str, str]) -> None:
        nonlocal inside
        inside = tag == "t"
        if tag in _BREAKS:
            text.add(_BREAKS[tag])

    def end(tag: str) -> None:
        nonlocal inside
        inside = False
        text.add({"p": "\n", "tc": "\t", "tr": "\n"}.get(tag, ""))

    package.parse(name, start, end, lambda data: text.add(data) if inside else None)


def _word(package: _Package, text: _Text) -> None:
    text.page_count = _stated_pages(package)
    _paragraphs(package, "word/document.xml", text)


def _stated_pages(package: _Package) -> int | None:
    """Return the number of pages that the program stored which has written a DOCX, if any."""
    inside, digits = False, ""

    def start(tag: str, _: dict[str, str]) -> None:
        nonlocal inside
        inside = tag == "Pages"

    def text(data: str) -> None:
        nonlocal digits
        digits += data if inside else ""

    if "docProps/app.xml" in package.names:
        with suppress(expat.ExpatError):
            package.parse("docProps/app.xml", start, lambda _: start("", {}), text)
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS
    return (int(digits) or None) if is_number else None


def _slides(package: _Package, text: _Text) -> None:
    names = package.numbered(r"ppt/slides/slide(\d+)\.xml")
    text.page_count = len(names)
    for number, name in enumerate(names, 1):
        text.add(f"[Slide {number}]\n")
        _paragraphs(package, name, text)


def _shared_strings(package: _Package) -> list[str]:
    """Return the texts of a workbook that its cells refer to."""
    found: list[str] = []
    inside = False

    def start(tag: str, _: dict[str, str]) -> None:
        nonlocal inside
        inside = tag == "t"
        if tag == "si":
            found.append("")

    def text(data: str) -> None:
        if inside and found:
            found[-1] += data

    if "xl/sharedStrings.xml" in package.names:
        package.parse("xl/sharedStrings.xml", start, lambda _: None, text)
    return found


def _sheets(package: _Package, text: _Text) -> None:
    parts = package.numbered(r"xl/worksheets/sheet(\d+)\.xml")
    text.page_count = len(parts)
    shared, names = _shared_strings(package), list[str]()

    def start(tag: str, values: dict[str, str]) -> None:
        if tag == "sheet":
            names.append(values.get("name", ""))

    package.parse("xl/workbook.xml", start, _ignore, _ignore)
    for number, part in enumerate(parts, 1):
        text.add(f"[Sheet {names[number - 1] if number <= len(names) else number}]\n")
        _rows(package, part, shared, text)


def _rows(package: _Package, name: str, shared: list[str], text: _Text) -> None:
    kind, value, inside = "", "", False

    def start(tag: str, values: dict[str, str]) -> None:
        nonlocal kind, value, inside
        inside = tag in ("v", "t")
        if tag == "c":
            kind, value = values.get("t", ""), ""

    def end(tag: str) -> None:
        nonlocal inside
        inside = False
        if tag == "c":
            is_shared = kind == "s" and value.isdecimal() and int(value) < len(shared)
            text.add(f"{shared[int(value)] if is_shared else value}\t")
        elif tag == "row":
            text.add("\n")

    def take(data: str) -> None:
        nonlocal value
        if inside:
            value += data

    package.parse(name, start, end, take)


def _pages(data: bytes, text: _Text) -> None:
    reader = import_module("pypdf").PdfReader(io.BytesIO(data), strict=False)
    if reader.is_encrypted and not reader.decrypt(""):
        raise _Refused("it is protected by a password")
    text.page_count = len(reader.pages)
    for number in range(min(text.page_count, _MOST_PAGES)):
        text.add(f"{reader.pages[number].extract_text()}\n\n")


def _read(data: bytes, text: _Text) -> None:
    if data.startswith(b"%PDF-"):
        return _pages(data, text)
    package = _Package(data)
    kinds = {"word/document.xml": _word, "xl/workbook.xml": _sheets, "ppt/presentation.xml": _slides}
    read = next((kinds[name] for name in kinds if name in package.names), None)
    if read is None:
        raise _Other
    return read(package, text)


def read(data: bytes, longest: int) -> dict[str, Any]:
    """Return what `main` writes. Raises what the parser of PDF raises."""
    text, is_cut = _Text(longest), False
    try:
        _read(data, text)
    except _Full:
        is_cut = True
    except _Other:
        return {"is_other": True}
    except _Refused as refusal:
        return {"problem": str(refusal)}
    except (BadZipFile, expat.ExpatError, KeyError, NotImplementedError, RuntimeError):
        return {"problem": "it is damaged, or has a part that cannot be read"}
    is_cut = is_cut or (data.startswith(b"%PDF-") and (text.page_count or 0) > _MOST_PAGES)
    return {"text": str(text), "page_count": text.page_count, "is_cut": is_cut}


def main() -> None:
    limits = {resource.RLIMIT_AS: _MEMORY, resource.RLIMIT_CPU: _CPU_SECONDS, resource.RLIMIT_CORE: 0}
    for limit, value in {**limits, resource.RLIMIT_FSIZE: 0}.items():
        with suppress(ValueError, OSError):  # macOS has no limit of memory
            resource.setrlimit(limit, (value, value))
    try:
        found = read(sys.stdin.buffer.read(), int(sys.argv[1]))
    except MemoryError:
        found = {"problem": "it takes too much memory"}
    except Exception:  # of the parser of PDF, whatever it is
        found = {"problem": "it is damaged, or has a part that cannot be read"}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
