"""Admin of credentials: a value is entered and sealed, and never shown again."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from audit_app.admin_base import columns
from audit_app.admin_base.base import FreshLoginAdmin, acting
from audit_app.fresh_login import SEE_CREDENTIALS
from audit_app.kernel.errors import AppError
from audit_app.kernel.safe_text import visible
from tools_app.models import Credential
from tools_app.secrets import credentials


class CredentialForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when run
    """A new credential, or a new value for an existing one. The stored value is never sent to the browser."""

    value = forms.CharField(
        max_length=credentials.MOST_CHARACTERS,
        min_length=credentials.LEAST_CHARACTERS,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Stored encrypted, and never shown again.",
    )

    class Meta:
        model = Credential
        fields = ["name", "owner"]
        widgets = {"name": UnfoldAdminTextInputWidget, "owner": UnfoldAdminSelectWidget}
        help_texts = {"name": "Referred to as {{credential:NAME}}: letters, digits, dots, dashes, underscores."}

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        try:
            credentials.check_name(name)
        except AppError as error:
            raise forms.ValidationError(error.message) from None
        return name


_TIMES = ("created_at", "updated_at", "last_used_at")


@admin.register(Credential)
class CredentialAdmin(FreshLoginAdmin):
    form = CredentialForm
    fresh_login_action = SEE_CREDENTIALS
    list_display = ("title", "whose", *_TIMES)
    list_select_related = ("owner",)
    search_fields = ("name",)
    ordering = ("name",)

    def get_fields(self, request: HttpRequest, obj: Credential | None = None) -> tuple[str, ...]:
        return ("name", "owner", "value", *(_TIMES if obj else ()))

    def get_readonly_fields(self, request: HttpRequest, obj: Credential | None = None) -> tuple[str, ...]:
        return ("name", "owner", *_TIMES) if obj else ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        with acting(request):
            row, _ = credentials.store_credential(obj.name, form.cleaned_data["value"], owner_id=obj.owner_id)
        obj.pk = row.pk
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
