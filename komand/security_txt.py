"""`/.well-known/security.txt`: who takes reports about the security of this installation (RFC 9116)."""

from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

PATH = ".well-known/security.txt"
_VALID = timedelta(days=90)


@require_safe
def security_txt(request: HttpRequest) -> HttpResponse:
    """Return the contacts of KOMAND_SECURITY_CONTACT, which are valid for 90 days. Raises Http404 if there is none."""
    if not settings.KOMAND_SECURITY_CONTACT:
        raise Http404
    lines = [f"Contact: {contact}" for contact in settings.KOMAND_SECURITY_CONTACT]
    lines.append(f"Expires: {datetime.now(UTC) + _VALID:%Y-%m-%dT%H:%M:%SZ}")
    if settings.KOMAND_PUBLIC_URL.startswith("https://"):
        lines.append(f"Canonical: {settings.KOMAND_PUBLIC_URL}/{PATH}")
    return HttpResponse("".join(f"{line}\n" for line in lines), content_type="text/plain; charset=utf-8")
