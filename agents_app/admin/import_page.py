"""The page "Import agents": shows what a YAML file would change, then imports it."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminTextareaWidget

from agents_app.configuration import agent_files
from agents_app.configuration.agent_files import Planned
from agents_app.yaml_documents import LARGEST_UPLOAD
from audit_app import fresh_login
from audit_app.admin_base.base import acting, render_page
from audit_app.kernel.errors import AppError

LIST = "admin:agents_app_agent_changelist"


class ImportForm(forms.Form):
    """A YAML file, chosen or pasted."""

    file = forms.FileField(
        required=False,
        allow_empty_file=True,
        widget=UnfoldAdminFileFieldWidget(attrs={"accept": ".yaml,.yml"}),
        help_text=f"At most {LARGEST_UPLOAD:,} bytes, as an export writes it.",
    )
    text = forms.CharField(
        required=False,
        strip=False,
        label="Or its text",
        max_length=LARGEST_UPLOAD,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 14, "spellcheck": "false", "class": "k-mono"}),
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if uploaded := cleaned.get("file"):
            try:
                cleaned["text"] = agent_files.read_upload(uploaded.read(LARGEST_UPLOAD + 1))
            except AppError as error:
                self.add_error("file", error.message)
        elif not cleaned.get("text"):
            self.add_error("text", "Choose a file, or paste its text.")
        return cleaned


def page(request: HttpRequest, model_admin: ModelAdmin) -> HttpResponse:
    """Return the page with the form and, once it is submitted, the preview; or import what the preview has shown."""
    form = ImportForm(request.POST, request.FILES) if request.method == "POST" else ImportForm()
    planned: tuple[Planned, ...] = ()
    if form.is_bound and form.is_valid():
        try:
            plan = agent_files.plan(form.cleaned_data["text"])
            needs_fresh_login = agent_files.check_rights(request.user, plan)
            planned = plan  # shown only to those who may carry it out
            if "import" in request.POST:
                return _import(request, planned, needs_fresh_login=needs_fresh_login)
            form = ImportForm(initial={"text": form.cleaned_data["text"]})
        except AppError as error:
            form.add_error(None, error.message)
    template = "admin/agents_app/agent/import.html"
    return render_page(request, model_admin, template, title="Import agents", form=form, planned=planned)


def _import(request: HttpRequest, planned: tuple[Planned, ...], *, needs_fresh_login: bool) -> HttpResponse:
    if needs_fresh_login:
        fresh_login.require(request, fresh_login.GRANT_AUTONOMY)
    with acting(request):
        agent_files.apply(planned, owner_id=request.user.pk)
    messages.success(request, _summary(planned))
    return HttpResponseRedirect(reverse(LIST))


def _summary(planned: tuple[Planned, ...]) -> str:
    new = sum(one.is_new for one in planned)
    changed = sum(1 for one in planned if not one.is_new and one.changes)
    return f"Imported: {new} new, {changed} changed, {len(planned) - new - changed} as they were."
