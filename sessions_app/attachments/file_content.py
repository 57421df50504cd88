"""The content of a file: its type, and its text if it is text or a document. Blocks while a document is read."""

from sessions_app.attachments import model_text
from sessions_app.attachments.model_text import LONGEST_TEXT, Content
from tools_app.documents import document_text
from tools_app.documents.document_types import PDF, PROTECTED


def read(data: bytes) -> Content:
    """Return the type of a file by its bytes, and its text if it is text or a document.

    `omitted_because` is the reason why a document has no text. A PDF without text has none if it may be read all the
    same: some models take it as it is.
    """
    document = document_text.read(data)
    if document is None:
        return model_text.read(data)
    text, count = document.text, document.page_count
    if text:
        return Content(document.media_type, text[:LONGEST_TEXT], len(text), page_count=count)
    may_be_read = document.media_type == PDF and document.problem != PROTECTED
    return Content(document.media_type, omitted_because="" if may_be_read else document.problem, page_count=count)
