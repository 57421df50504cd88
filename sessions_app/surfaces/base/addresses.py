"""The address of this installation, for pages that name it."""

from django.conf import settings
from django.http import HttpRequest


def origin_for(request: HttpRequest) -> str:
    """Return KOMAND_PUBLIC_URL, or if that is empty the origin under which the page was requested."""
    return settings.KOMAND_PUBLIC_URL or request.build_absolute_uri("/").rstrip("/")
