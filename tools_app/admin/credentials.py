"""Admin of credentials: a value is entered and sealed, and never shown again."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from audit_app.admin_base import columns
from audit_app.admin_base.base import FreshLoginAdmin, acting
from audit_app.fresh_login import SEE_CREDENTIALS
from audit_app.kernel.safe_text import visible
from tools_app.admin.rule_fields import LinesField, hosts_field
from tools_app.models import Credential
from tools_app.secrets import credentials


class CredentialForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when run
    """A new credential, or a new value for an existing one. The stored value is never sent to the browser."""

    value = forms.CharField(
        required=False,
        max_length=credentials.MOST_CHARACTERS,
        min_length=credentials.LEAST_CHARACTERS,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Stored encrypted and not shown again. Leave empty to keep the stored value and its hosts.",
    )
    hosts = hosts_field("Hosts", "Calls may send it to them. Needed unless it belongs to the installation.")
    agents = LinesField(
        label="Shared with agents",
        help_text="Ids of the agents that may use it in runs of other users, one a line. Only the owner can share it.",
    )

    class Meta:
        model = Credential
        fields = ["name", "owner", "hosts", "agents"]
        widgets = {"name": UnfoldAdminTextInputWidget, "owner": UnfoldAdminSelectWidget}
        help_texts = {"name": "Referred to as {{credential:NAME}}: letters, digits, dots, dashes, underscores."}

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if not data.get("value") and (self.instance._state.adding or "hosts" in self.changed_data):
            self.add_error("value", "Enter the value: a new credential and a change of the hosts need it.")
        return data


_TIMES = ("created_at", "updated_at", "last_used_at")


@admin.register(Credential)
class CredentialAdmin(FreshLoginAdmin):
    empty_text = "Credentials are secrets that tools use and models never see."
    form = CredentialForm
    fresh_login_action = SEE_CREDENTIALS
    list_display = ("title", "whose", *_TIMES)
    list_select_related = ("owner",)
    search_fields = ("name",)
    ordering = ("name",)

    def get_fields(self, request: HttpRequest, obj: Credential | None = None) -> tuple[str, ...]:
        return ("name", "owner", "value", "hosts", "agents", *(_TIMES if obj else ()))

    def get_readonly_fields(self, request: HttpRequest, obj: Credential | None = None) -> tuple[str, ...]:
        if obj is None:
            return ()
        is_others = obj.owner_id is not None and obj.owner_id != request.user.pk
        return ("name", "owner", *(("agents",) if is_others else ()), *_TIMES)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        value, fields = form.cleaned_data["value"], form.cleaned_data
        with acting(request), transaction.atomic():
            if value:
                credentials.store_credential(obj.name, value, owner_id=obj.owner_id, hosts=fields["hosts"])
            if "agents" in form.changed_data and obj.owner_id in (None, request.user.pk):
                credentials.share_credential(obj.name, fields["agents"], owner_id=obj.owner_id)
            obj.pk = credentials.get_credential(obj.name, owner_id=obj.owner_id).pk
        obj._state.adding = False

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        if isinstance(obj, Credential):
            with acting(request):
                credentials.delete_credential(obj.name, owner_id=obj.owner_id)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            self.delete_model(request, row)

    title = columns.text("Name", "name")
    whose = columns.column(
        "Owner", lambda credential: visible(str(credential.owner)) if credential.owner else "the installation"
    )
