"""Confirmation of acts in the admin, and what follows it, with and without htmx."""

from typing import Any

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.admin import ModelAdmin

# The most rows one act takes at once, also when the browser asks for all of them.
MOST_SELECTED = 100


def back_to(request: HttpRequest, url_name: str, *args: object) -> HttpResponse:
    """Leave the dialog for a page. htmx follows a redirect inside the dialog, so it is told to load the page whole."""
    url = reverse(url_name, args=args)
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(headers={"HX-Redirect": url})
    return HttpResponseRedirect(url)


def confirmed(request: HttpRequest) -> bool:
    """Whether the confirmation page of a bulk act was answered with yes."""
    return request.POST.get("confirmed") == "yes"


def confirmation(
    request: HttpRequest, page: ModelAdmin, rows: QuerySet[Any], *, act: str, question: str, submit: str
) -> TemplateResponse:
    """Ask before a bulk act. act: the name of the action, which is posted again together with the selected rows."""
    context = {
        **page.admin_site.each_context(request),
        "opts": page.model._meta,
        "title": question,
        "rows": rows[:MOST_SELECTED],
        "checkbox": ACTION_CHECKBOX_NAME,
        "act": act,
        "submit": submit,
    }
    request.current_app = page.admin_site.name
    return TemplateResponse(request, "admin/komand/confirmation.html", context)
