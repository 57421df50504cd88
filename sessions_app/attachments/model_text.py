"""Attached files as text for the model: the content of text files, a note about all others. Pure.

The type of a file is read from its bytes; its name is untrusted.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

LONGEST_TEXT = 20_000
_LONGEST_TOGETHER = 60_000
_LONGEST_NAME = 200
_SNIFFED = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ", "application/x-executable"),
)
_TEXT_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


@dataclass(frozen=True)
class Content:
    """The content of a file. text: its beginning, if it is text. characters: the length of the whole text."""

    mime_type: str
    text: str = ""
    characters: int | None = None


@dataclass(frozen=True)
class Described:
    """A file to describe.

    status: as stored. error: why it was not fetched. id: the model cites the file by it. artifact_path: by which the
    tool `read_artifact` reads it; empty if it is no artifact.
    """

    kind: str
    filename: str
    mime_type: str
    size_bytes: int | None
    status: str
    text: str = ""
    characters: int | None = None
    error: str = ""
    id: str = ""
    artifact_path: str = ""


def read(data: bytes) -> Content:
    """Return the type of a file by its bytes, and its text if it is text."""
    for signature, mime_type in _SNIFFED:
        if data.startswith(signature):
            return Content(mime_type)
    if data[:4] == b"RIFF" and data[8:12] in (b"WEBP", b"WAVE"):
        return Content("image/webp" if data[8:12] == b"WEBP" else "audio/wav")
    if data[4:8] == b"ftyp":
        return Content("video/mp4")
    if (text := _as_text(data)) is None:
        return Content("application/octet-stream")
    return Content("text/plain", text[:LONGEST_TEXT], len(text))


def clean_filename(name: str) -> str:
    """Return the last part of a path without invisible and direction-changing characters."""
    last = name.replace("\\", "/").rpartition("/")[2]
    seen = "".join(sign for sign in last if unicodedata.category(sign)[0] not in "CZ" or sign == " ")
    return seen.strip(" .")[:_LONGEST_NAME]


def file_list(names: Iterable[tuple[str, str]]) -> str:
    """Return the text of a message that has files alone. names: kind and file name of each."""
    labels = [filename or kind for kind, filename in names]
    return f"📎 {', '.join(labels)}" if labels else ""


def describe(files: Iterable[Described]) -> str:
    """Return all files of a message as text for the model."""
    left = _LONGEST_TOGETHER
    texts = []
    for file in files:
        texts.append(_describe_one(file, left))
        left -= min(len(file.text), left)
    return "\n\n".join(texts)


def _describe_one(file: Described, room: int) -> str:
    what = f"{file.kind} {file.filename}" if file.filename else file.kind
    about = ", ".join(part for part in (file.mime_type, _size(file.size_bytes)) if part)
    if file.status == "waiting":
        return f"[Attached {what}: it could not be fetched in time]"
    if file.status == "failed":
        return f"[Attached {what}: it could not be fetched, {file.error}]"
    kept = f"; stored as {file.artifact_path}" if file.artifact_path else ""
    if file.characters is None or not file.text:
        return f"[Attached {what}{f' ({about})' if about else ''}{kept}: its content cannot be shown here]"
    shown = file.text[:room]
    cut = "" if len(shown) == file.characters else f"; the first {len(shown):,} of {file.characters:,} characters"
    cited = f"; to be cited as [{file.id}]" if file.id else ""
    return f"[Attached {what} ({about}){cut}{kept}{cited}]\n<<<\n{shown}\n>>>"


def _size(size_bytes: int | None) -> str:
    if size_bytes is None:
        return ""
    if size_bytes < 1000:
        return f"{size_bytes} bytes"
    return f"{size_bytes / 1_000_000:.1f} MB" if size_bytes >= 100_000 else f"{size_bytes / 1000:.1f} kB"


def _as_text(data: bytes) -> str | None:
    encoding = next((name for mark, name in _TEXT_MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    if any(unicodedata.category(sign) == "Cc" and sign not in "\n\r\t\f" for sign in text[:LONGEST_TEXT]):
        return None
    return text.replace("\r\n", "\n").replace("\0", "")
