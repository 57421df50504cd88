"""The theme's action decorator in the four forms that are used here, typed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.decorators import action as theme_action
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm

from audit_app.admin_base.dialogs import MOST_SELECTED, confirmation

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Dialog:
    """The confirmation of a button. submit: label of its submit button."""

    question: str
    explanation: str
    submit: str
    form_class: type[BaseDialogForm] | None = None


def button(
    label: str, *, path: str, icon: str, permissions: Sequence[str] = (), variant: ActionVariant = ActionVariant.DEFAULT
) -> Callable[[F], F]:
    """Declare a button on an object's page that opens another page: `method(self, request, object_id)`.

    For list pages (`actions_list`): `method(self, request)`.
    """
    return _action(description=label, url_path=path, icon=icon, permissions=permissions, variant=variant)


def act(
    label: str,
    *,
    path: str,
    icon: str,
    permissions: Sequence[str],
    dialog: Dialog,
    variant: ActionVariant = ActionVariant.DEFAULT,
) -> Callable[[F], F]:
    """Declare a button on an object's page with a confirmation, sent by POST: `method(self, request, form, object_id)`.

    permissions: names for which the page has a `has_<name>_permission`.
    """
    texts = {"title": dialog.question, "description": dialog.explanation, "form_submit_text": dialog.submit}
    shown = {**texts, "form_class": dialog.form_class}
    return _action(description=label, url_path=path, icon=icon, permissions=permissions, variant=variant, dialog=shown)


def submit(label: str, *, permissions: Sequence[str]) -> Callable[[F], F]:
    """Declare a further button of a form, beside "Save": `method(self, request, obj)`, after the form was saved."""
    return _action(description=label, permissions=permissions)


def bulk_act(label: str, *, permissions: Sequence[str], question: str, submit: str) -> Callable[[Any], Any]:
    """Declare an action on the selected rows of a list, with a confirmation: `method(self, request, rows)`."""

    def declare(method: Callable[[Any, HttpRequest, QuerySet[Any]], None]) -> Any:
        @wraps(method)
        def confirmed(page: Any, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
            if request.POST.get("confirmed") != "yes":
                return confirmation(request, page, queryset, act=method.__name__, question=question, submit=submit)
            method(page, request, queryset[:MOST_SELECTED])
            return None

        return _action(description=label, permissions=permissions)(confirmed)

    return declare


def _action(**options: Any) -> Callable[[F], F]:
    return cast("Callable[[F], F]", theme_action(**options))
