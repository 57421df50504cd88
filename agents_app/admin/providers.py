"""Model providers in the admin. A key is encrypted when it is entered, and only its fingerprint is shown."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.crypto import salted_hmac
from unfold.decorators import display

from agents_app.admin.forms import ProviderForm
from agents_app.models import ModelProvider
from audit_app import services as audit
from audit_app.admin_base import columns, links
from audit_app.admin_base.base import AuditedAdmin, acting
from audit_app.kernel.errors import AppError
from tools_app.secrets import vault

PAGE = "admin:agents_app_modelprovider_change"

links.register_page("provider", PAGE)


def fingerprint(key: str) -> str:
    """Return eight characters that identify a key without revealing it."""
    return salted_hmac("komand.provider-key", key, algorithm="sha256").hexdigest()[:8]


@admin.register(ModelProvider)
class ModelProviderAdmin(AuditedAdmin):
    noun = "ModelProvider"
    form = ProviderForm
    list_display = ("name", "kind", "address", "default_model", "key_is_set", "is_enabled", "updated_at")
    search_fields = ("name", "base_url", "default_model")
    readonly_fields = ("stored_key",)
    fieldsets = (
        (None, {"fields": (("name", "kind"), "base_url", ("default_model", "is_enabled"))}),
        ("Prices", {"fields": (("input_price", "output_price"),)}),
        ("Key", {"fields": ("stored_key", "new_key", "remove_key")}),
    )

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.user = request.user  # the class is made for this request
        return form

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        key = form.cleaned_data["new_key"]
        if key:
            obj.api_key_sealed = vault.seal(key)
        elif form.cleaned_data["remove_key"]:
            obj.api_key_sealed = ""
        super().save_model(request, obj, form, change)
        with acting(request):
            if key:
                details = {"provider": obj.name, "fingerprint": fingerprint(key)}
                audit.record("CredentialStored", details=details)
            elif form.cleaned_data["remove_key"]:
                audit.record("CredentialDeleted", details={"provider": obj.name})

    address = columns.text("Address", "base_url", empty="–")
    key_is_set = columns.column("Key set", lambda provider: bool(provider.api_key_sealed), boolean=True)

    @display(description="Stored key")
    def stored_key(self, provider: ModelProvider) -> str:
        if not provider.api_key_sealed:
            return "not set"
        try:
            return f"set, fingerprint {fingerprint(vault.unseal(provider.api_key_sealed))}"
        except AppError:
            return "set, but cannot be decrypted with the vault key of this installation: enter it again"
