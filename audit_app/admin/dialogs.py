"""What follows a confirmed act in the admin: the dialogs of the theme answer htmx, a browser without it gets a redirect."""

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse


def back_to(request: HttpRequest, url_name: str, *args: object) -> HttpResponse:
    """Leave the dialog for a page. htmx follows a redirect inside the dialog, so it is told to load the page whole."""
    url = reverse(url_name, args=args)
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(headers={"HX-Redirect": url})
    return HttpResponseRedirect(url)
