"""Types of documents, by the bytes of a file, and the units in which they are counted. Pure."""

PDF = "application/pdf"
OFFICE = "application/vnd.openxmlformats-officedocument"
OLD_OFFICE = "application/msword"
DOCUMENTS = (PDF, OFFICE, OLD_OFFICE)
PROTECTED = "it is protected by a password"
_NOT_READ = "the old format of Office is not read: save it as .docx, .xlsx or .pptx"
_OFFICE_TYPES = {
    b"word/document.xml": f"{OFFICE}.wordprocessingml.document",
    b"xl/workbook.xml": f"{OFFICE}.spreadsheetml.sheet",
    b"ppt/presentation.xml": f"{OFFICE}.presentationml.presentation",
}
_UNITS = {"presentation": "slide", "sheet": "sheet"}  # by the end of the type
_COMPOUND_FILE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # [MS-CFB] 2.2
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")  # [MS-OFFCRYPTO] 2.3.4.4: any format of Office with a password


def find_type(data: bytes) -> str:
    """Return the media type that a file seems to have, empty if it is no document."""
    if data.startswith(b"%PDF-"):
        return PDF
    if data.startswith(_COMPOUND_FILE):
        return OLD_OFFICE
    if not data.startswith(b"PK\x03\x04"):
        return ""
    return next((kind for name, kind in _OFFICE_TYPES.items() if name in data), "")


def find_problem(data: bytes, media_type: str) -> str:
    """Return why no text can be read of a document of this type, empty if it may have some."""
    if media_type != OLD_OFFICE:
        return ""
    return PROTECTED if _ENCRYPTED in data else _NOT_READ


def count_text(media_type: str, count: int | None) -> str:
    """Return the number of pages, sheets or slides as a text, empty if it is not known."""
    unit = _UNITS.get(media_type.rpartition(".")[2], "page")
    return "" if count is None else f"{count:,} {unit}{'' if count == 1 else 's'}"
