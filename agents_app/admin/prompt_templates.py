"""Prompt templates in the admin: text with versions, comparison, rollback and preview."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from unfold.decorators import display
from unfold.widgets import UnfoldAdminTextareaWidget

from agents_app.configuration import agent_versions, prompt_templates
from agents_app.models import PromptTemplate
from agents_app.yaml_documents import LONGEST_TEMPLATE
from audit_app.admin_base import columns
from audit_app.admin_base.base import VersionedAdmin, acting, get_or_404, render_page, reported
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.theme import button
from audit_app.kernel.errors import AppError

PAGE = "admin:agents_app_prompttemplate_change"
_TEXT_BOX = {"rows": 24, "spellcheck": "false", "class": "k-mono"}
_START = "---\ndescription: \nparameters: {}\n---\n"


class TemplateForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when run
    """The form of a template. A text that cannot work is refused with the place of the fault."""

    text = forms.CharField(
        initial=_START,
        max_length=LONGEST_TEMPLATE,
        strip=False,
        widget=UnfoldAdminTextareaWidget(attrs=_TEXT_BOX),
        help_text="Markdown with YAML front matter: description, parameters (null: required), skills, model settings.",
    )
    note = forms.CharField(required=False, max_length=300, help_text="Note on the new version.")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        name = cleaned.get("name") or self.instance.name
        cleaned["text"] = cleaned.get("text", "").replace("\r\n", "\n")
        try:
            if name:
                prompt_templates.check_text(name, cleaned["text"])
        except AppError as error:
            self.add_error("text", error.message)
        return cleaned


class PreviewForm(forms.Form):
    """A text and parameters to render."""

    parameters = forms.JSONField(
        required=False,
        initial=dict,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 4}),
        help_text="JSON object of values by name.",
    )
    text = forms.CharField(strip=False, widget=UnfoldAdminTextareaWidget(attrs=_TEXT_BOX))

    def clean_parameters(self) -> dict[str, Any]:
        given = self.cleaned_data["parameters"] or {}
        if not isinstance(given, dict):
            raise forms.ValidationError('Enter a JSON object, such as {"name": "Ada"}.')
        return given


@admin.register(PromptTemplate)
class PromptTemplateAdmin(VersionedAdmin):
    empty_text = "Templates are instructions that several agents share."
    form = TemplateForm
    list_display = ("title", "description", "version", "updated_at")
    search_fields = ("name", "text")
    fields = ("name", "text", "note")
    actions_detail: Any = ("preview", "versions")
    warn_unsaved_form = True

    def get_readonly_fields(self, request: HttpRequest, obj: PromptTemplate | None = None) -> tuple[str, ...]:
        return ("name",) if obj else ()

    def get_actions(self, request: HttpRequest) -> Any:
        return {}  # each is deleted on its own page, after a look at what uses it

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        with acting(request):
            stored = prompt_templates.save(obj.name, form.cleaned_data["text"], form.cleaned_data["note"])
        obj.pk, obj.version = stored.pk, stored.version

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        template = self.get_object(request, object_id)
        if (
            template
            and self.has_delete_permission(request, template)
            and (users := prompt_templates.users_of(template))
        ):
            messages.error(request, f"{template} is used by {', '.join(users)}. Change them first.")
            return back_to(request, PAGE, object_id)
        return super().delete_view(request, object_id, extra_context)

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        with acting(request):
            prompt_templates.delete(obj)  # type: ignore[arg-type]  # of this page

    @button("Preview", path="preview", icon="visibility", permissions=["change"])
    def preview(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the form and, once it is submitted, the rendered text."""
        template: PromptTemplate = get_or_404(self, request, object_id)
        form = PreviewForm(request.POST or None, initial={"text": template.text})
        shown: dict[str, Any] = {"form": form}
        if form.is_valid():
            text = form.cleaned_data["text"].replace("\r\n", "\n")
            try:
                rendered = prompt_templates.preview(template.name, text, form.cleaned_data["parameters"])
                shown |= {"rendered": rendered, "settings": _settings_of(rendered)}
            except AppError as error:
                shown["problem"] = error.message
        page = "admin/agents_app/prompttemplate/preview.html"
        return render_page(request, self, page, title=f"Preview of {template.name}", template=template, **shown)

    @button("History", path="versions", icon="history", permissions=["change"])
    def versions(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the versions; on POST, roll back to one."""
        template: PromptTemplate = get_or_404(self, request, object_id)
        if request.method == "POST":
            number = request.POST.get("number", "")
            with reported(request):
                row = prompt_templates.roll_back(template.name, int(number) if number.isdecimal() else -1)
                messages.success(request, f"{row} was restored from version {number} as version {row.version}.")
            return HttpResponseRedirect(request.path)
        versions = list(template.versions.order_by("-number"))
        by_number = {str(version.number): version for version in versions}
        after = by_number.get(request.GET.get("to", "")) or versions[0]
        before = by_number.get(request.GET.get("from", "")) or (versions[1] if len(versions) > 1 else None)
        changes = agent_versions.compare({"text": before.text}, {"text": after.text}) if before else ()
        return render_page(
            request,
            self,
            "admin/agents_app/prompttemplate/history.html",
            title=f"History of {template.name}",
            template=template,
            versions=versions,
            before=before,
            after=after,
            diff="".join(change.diff for change in changes),
        )

    title = columns.text("Name", "name", ordering="name")

    @display(description="Description")
    def description(self, template: PromptTemplate) -> str:
        try:
            return prompt_templates.check_text(template.name, template.text).description
        except AppError as error:
            return error.message


def _settings_of(rendered: prompt_templates.Rendered) -> dict[str, Any]:
    """Return the model settings of a prompt that are set."""
    model = {"model": rendered.settings.model} if rendered.settings.model else {}
    return {**model, **rendered.settings.to_options()}
