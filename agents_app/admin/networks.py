"""Networks in the admin: YAML with its problems in place, the picture, the Mermaid text, and the versions."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from unfold.decorators import display
from unfold.widgets import UnfoldAdminTextareaWidget

from agents_app.configuration import agent_access
from agents_app.models import StoredNetwork
from agents_app.models.networks import LONGEST_DEFINITION
from agents_app.network_runs import library
from agents_app.networks import yaml_format
from agents_app.networks.mermaid import to_mermaid
from agents_app.networks.picture import to_svg
from agents_app.yaml_documents import UnusableFile
from audit_app.admin_base.base import OperatorFormAdmin, acting
from audit_app.kernel.errors import AppError
from audit_app.kernel.safe_text import visible

_SHOWN_VERSIONS = 20
_START = "format: 1\nname: \ntasks:\n- name: first\n  agent: default\n"


class NetworkForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when run
    """The form of a network. A definition with problems is refused, with the line of each."""

    definition = forms.CharField(
        initial=_START,
        max_length=LONGEST_DEFINITION,
        strip=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 28, "spellcheck": "false", "class": "k-mono"}),
        help_text="YAML: see docs/networks.md.",
    )

    operator: Any

    class Meta:
        model = StoredNetwork
        fields = ("definition", "is_shared_with_everyone")

    def clean_definition(self) -> str:
        text: str = self.cleaned_data["definition"].replace("\r\n", "\n")
        try:
            network = library.read(text, agent_access.usable_agents(self.operator))
        except UnusableFile as error:
            raise forms.ValidationError([str(problem) for problem in error.problems]) from None
        except AppError as error:
            raise forms.ValidationError(error.message) from None
        taken = StoredNetwork.objects.filter(name=network.name).exclude(pk=self.instance.pk).exists()
        if self.instance.name and network.name != self.instance.name:
            raise forms.ValidationError("The name of a network cannot be changed. Create a new network.")
        if taken:
            raise forms.ValidationError(f"The network {network.name!r} already exists.")
        return text


@admin.register(StoredNetwork)
class NetworkAdmin(OperatorFormAdmin):
    empty_text = "Networks let several agents work on one task."
    form = NetworkForm
    list_display = ("name", "description", "version", "is_shared_with_everyone", "updated_at")
    search_fields = ("name", "description")
    readonly_fields = ("picture", "mermaid", "history")
    warn_unsaved_form = True

    def get_fields(self, request: HttpRequest, obj: StoredNetwork | None = None) -> Any:
        edited = ("definition", "is_shared_with_everyone")
        return ("picture", *edited, "mermaid", "history") if obj else edited

    def get_actions(self, request: HttpRequest) -> Any:
        return {}

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        text, is_shared = form.cleaned_data["definition"], form.cleaned_data["is_shared_with_everyone"]
        usable = agent_access.usable_agents(form.operator)
        with acting(request):
            if change:
                stored = library.change(obj, usable, text=text, is_shared=is_shared)
            else:
                stored = library.create(text, usable, owner_id=form.operator.pk, is_shared=is_shared)
        obj.pk, obj.name, obj.version = stored.pk, stored.name, stored.version

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        with acting(request):
            library.delete(obj)  # type: ignore[arg-type]  # of this page

    @display(description="Picture")
    def picture(self, stored: StoredNetwork) -> SafeString:
        return mark_safe(to_svg(yaml_format.load(stored.definition)))  # noqa: S308 - drawn here, with names escaped

    @display(description="Mermaid")
    def mermaid(self, stored: StoredNetwork) -> SafeString:
        return format_html('<pre class="k-mono">{}</pre>', to_mermaid(yaml_format.load(stored.definition)))

    @display(description="Versions")
    def history(self, stored: StoredNetwork) -> SafeString:
        rows = stored.versions.all()[:_SHOWN_VERSIONS]
        shown = ((row.number, row.created_at.strftime("%Y-%m-%d %H:%M"), visible(row.actor)) for row in rows)
        return format_html_join("", "<div>Version {}, {} {}</div>", shown)
