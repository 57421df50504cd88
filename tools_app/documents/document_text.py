"""The text of documents (PDF, DOCX, XLSX, PPTX), read by a process of its own with limits of memory and time.

Blocks for up to `_SECONDS`: call it in a thread. The result is text of the file's author, as that of any text file.
"""

import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools_app.documents import document_types

_PROGRAM = Path(__file__).parent / "document_reader.py"
_SECONDS = 20
_LONGEST = 200_000  # characters that are read
_MOST_AT_ONCE = threading.BoundedSemaphore(2)


@dataclass(frozen=True)
class Document:
    """A document.

    text: its beginning, if it has any.
    page_count: the number of its pages, sheets or slides, if known.
    is_cut: the document has more text.
    problem: why it has no text.
    """

    media_type: str
    text: str = ""
    page_count: int | None = None
    is_cut: bool = False
    problem: str = ""


def read(data: bytes) -> Document | None:
    """Return a file as a document, None if it is none."""
    media_type = document_types.find_type(data)
    if not media_type:
        return None
    if problem := document_types.find_problem(data, media_type):
        return Document(media_type, problem=problem)
    found = _run(data)
    if found.get("is_other"):
        return None
    text, count = str(found.get("text") or ""), found.get("page_count")
    problem = "" if text else str(found.get("problem") or "it has no text")
    return Document(media_type, text, count if isinstance(count, int) else None, bool(found.get("is_cut")), problem)


def _run(data: bytes) -> dict[str, Any]:
    if not _MOST_AT_ONCE.acquire(timeout=_SECONDS):
        return {"problem": "too many documents are read at the moment: try it again"}
    try:
        command = [sys.executable, "-I", str(_PROGRAM), str(_LONGEST)]
        done = subprocess.run(command, input=data, capture_output=True, timeout=_SECONDS, env={}, check=False)  # noqa: S603
        found = json.loads(done.stdout)
        return found if isinstance(found, dict) else {}
    except (subprocess.TimeoutExpired, ValueError):
        return {"problem": f"it takes more than {_SECONDS} seconds, or too much memory"}
    finally:
        _MOST_AT_ONCE.release()
