"""The text of documents (PDF, DOCX, XLSX, PPTX), read by a process of its own with limits of memory and time.

Blocks for up to `_SECONDS`: call it in a thread. The result is text of the file's author, as that of any text file.
"""

import json
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from sessions_app.attachments import model_text
from sessions_app.attachments.model_text import LONGEST_TEXT, OFFICE, PDF, Content

_PROGRAM = Path(__file__).parent / "document_reader.py"
_SECONDS = 20
_LONGEST = 200_000  # characters that are read
_MOST_AT_ONCE = threading.BoundedSemaphore(2)
_TYPES = {
    b"word/document.xml": f"{OFFICE}.wordprocessingml.document",
    b"xl/workbook.xml": f"{OFFICE}.spreadsheetml.sheet",
    b"ppt/presentation.xml": f"{OFFICE}.presentationml.presentation",
}
_OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # Compound File Binary, [MS-CFB] 2.2
_OLD_TYPE = "application/msword"
_NOT_READ = "the old format of Office is not read: save it as .docx, .xlsx or .pptx"


def read(data: bytes) -> Content:
    """Return the type of a file by its bytes, and its text if it is text or a document.

    `omitted_because` is the reason why a document has no text; empty for a PDF, which some models take as it is.
    """
    content = model_text.read(data)
    if data.startswith(_OLD):
        return Content(_OLD_TYPE, omitted_because=_NOT_READ)
    if content.mime_type == "application/zip":
        office = next((kind for name, kind in _TYPES.items() if name in data), "")
        return _with_text(replace(content, mime_type=office), data) if office else content
    return _with_text(content, data) if content.mime_type == PDF else content


def _with_text(content: Content, data: bytes) -> Content:
    found = _run(data)
    text = str(found.get("text") or "")
    if text:
        return replace(content, text=text[:LONGEST_TEXT], characters=len(text))
    if content.mime_type == PDF:
        return content
    return replace(content, omitted_because=str(found.get("problem") or "it has no text"))


def _run(data: bytes) -> dict[str, Any]:
    if not _MOST_AT_ONCE.acquire(timeout=_SECONDS):
        return {"problem": "too many documents are read at the moment: upload it again"}
    try:
        command = [sys.executable, "-I", str(_PROGRAM), str(_LONGEST)]
        done = subprocess.run(command, input=data, capture_output=True, timeout=_SECONDS, env={}, check=False)  # noqa: S603
        found = json.loads(done.stdout)
        return found if isinstance(found, dict) else {}
    except (subprocess.TimeoutExpired, ValueError):
        return {"problem": f"it takes more than {_SECONDS} seconds, or too much memory"}
    finally:
        _MOST_AT_ONCE.release()
