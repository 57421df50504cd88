"""Confirmation of actions in the admin and the redirect after them, with and without htmx."""

from typing import Any

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.admin import ModelAdmin

from audit_app.admin_base.base import render_page

# The most rows that one action takes, even if all are selected.
MOST_SELECTED = 100


def back_to(request: HttpRequest, url_name: str, *args: object) -> HttpResponse:
    """Redirect from the dialog to a page. htmx would follow a redirect inside the dialog: it gets HX-Redirect."""
    return to_page(request, reverse(url_name, args=args))


def to_page(request: HttpRequest, url: str) -> HttpResponse:
    """Redirect from the dialog to an address, as `back_to`."""
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(headers={"HX-Redirect": url})
    return HttpResponseRedirect(url)


def confirmation(
    request: HttpRequest, page: ModelAdmin, rows: QuerySet[Any], *, act: str, question: str, submit: str
) -> TemplateResponse:
    """Return the confirmation page of a bulk action. act: its name, which is posted again with the selected rows."""
    return render_page(
        request,
        page,
        "admin/komand/confirmation.html",
        title=question,
        rows=rows[:MOST_SELECTED],
        checkbox=ACTION_CHECKBOX_NAME,
        act=act,
        submit=submit,
    )
