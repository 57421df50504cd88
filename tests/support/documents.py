"""Documents as bytes: Office files and PDF, sound and hostile."""

import zipfile
from io import BytesIO

from pypdf import PdfReader, PdfWriter

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def office(**parts: str | bytes) -> bytes:
    """Return an Office file. parts: by path, with `__` for a slash."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(f"{name.replace('__', '/')}.xml", data)
    return file.getvalue()


def word(*paragraphs: str) -> bytes:
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    return office(word__document=f"<w:document {W}><w:body>{body}</w:body></w:document>")


def pdf(text: str, *, pages: int = 1) -> bytes:
    """Return a PDF whose pages all show one text."""
    stream = f"BT /F1 12 Tf 50 100 Td ({text}) Tj ET".encode()
    kids = " ".join(f"{5 + number} 0 R" for number in range(pages))
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 3 0 R/Resources<</Font<</F1 4 0 R>>>>>>"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {pages}>>".encode(),
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        *[page] * pages,
    ]
    body, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj%s endobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    tail = b"trailer<</Root 1 0 R/Size %d>>\nstartxref\n%d\n%%%%EOF" % (size, len(body))
    return body + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + tail


def protected_pdf(text: str, password: str = "secret") -> bytes:
    """Return a PDF that takes a password to be read."""
    writer, file = PdfWriter(clone_from=PdfReader(BytesIO(pdf(text)))), BytesIO()
    writer.encrypt(password, algorithm="AES-256")
    writer.write(file)
    return file.getvalue()


BOMB = office(word__document=b"<w>" + b" " * 100_000_000)
ENTITIES = office(word__document='<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><w:document>&b;</w:document>')
OUTER_ENTITY = office(
    word__document=f'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><w:document {W}><w:t>&a;</w:t></w:document>'
)
OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 100
PROTECTED_OFFICE = OLD + "EncryptedPackage".encode("utf-16-le") + b"\0" * 100
DAMAGED = word("text")[:-60] + b"word/document.xml" + b"\0" * 60
