"""Answers whose body is a file."""

from django.http import HttpResponse
from django.utils.http import content_disposition_header

NO_TYPE = "application/octet-stream"


def download(data: bytes, media_type: str, name: str) -> HttpResponse:
    """Return the content of a file as an attachment: browsers save it and do not render it."""
    headers = {
        "Content-Disposition": content_disposition_header(True, name) or "attachment",
        "X-Content-Type-Options": "nosniff",
    }
    return HttpResponse(data, content_type=media_type or NO_TYPE, headers=headers)
