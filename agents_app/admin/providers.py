"""Model providers in the admin. A key is encrypted when it is entered, and only its fingerprint is shown."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.admin import TabularInline
from unfold.decorators import display

from agents_app.admin.forms import ProviderForm
from agents_app.models import ModelPrice, ModelProvider
from agents_app.providers import connection, provider_keys, trial
from agents_app.rights import SET_PRICES
from audit_app import services as audit
from audit_app.admin_base import columns, links
from audit_app.admin_base.base import AuditedAdmin, acting, get_or_404, render_page, reported
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.permissions import granted_by
from audit_app.admin_base.theme import Dialog, act, button
from audit_app.kernel.errors import AppError
from audit_app.kernel.safe_text import duration, visible
from tools_app.secrets import vault

PAGE = "admin:agents_app_modelprovider_change"

links.register_page("provider", PAGE)


class ModelPriceInline(TabularInline):
    """The prices of single models. A change applies to runs that are claimed from then on."""

    model = ModelPrice
    verbose_name_plural = "prices of models"
    extra = 0
    fields = ("model", "input_price", "cached_input_price", "output_price")

    has_change_permission = granted_by(SET_PRICES)
    has_add_permission = has_delete_permission = has_change_permission


@admin.register(ModelProvider)
class ModelProviderAdmin(AuditedAdmin):
    noun = "ModelProvider"
    empty_text = "Model providers are the servers whose models answer for agents."
    form = ProviderForm
    list_display = ("name", "kind", "address", "default_model", "key_is_set", "is_enabled", "updated_at")
    search_fields = ("name", "base_url", "default_model")
    readonly_fields = ("stored_key",)
    inlines = (ModelPriceInline,)
    actions_list: Any = ("connect",)
    actions_detail: Any = ("try_out", "choose_model")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("name", "kind"),
                    "base_url",
                    ("default_model", "is_enabled"),
                    ("accepted_parts", "transcription_model"),
                    ("embedding_model", "inline_reasoning"),
                )
            },
        ),
        ("Prices", {"fields": (("input_price", "output_price"),)}),
        ("Key", {"fields": ("stored_key", "new_key", "remove_key")}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return super().get_fieldsets(request, obj) if obj else (*self.fieldsets[:-1], ("Key", {"fields": ("new_key",)}))

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.user = request.user  # the class is made for this request
        return form

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        key = form.cleaned_data["new_key"]
        if key:
            provider_keys.set_key(obj, key)
        elif form.cleaned_data["remove_key"]:
            obj.api_key_sealed = ""
        super().save_model(request, obj, form, change)
        with acting(request):
            if key:
                provider_keys.record_key(obj, key)
            elif form.cleaned_data["remove_key"]:
                audit.record("CredentialDeleted", details={"provider": obj.name})

    def has_try_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return self.has_change_permission(request)

    @act(
        "Test",
        path="test",
        icon="wifi_tethering",
        permissions=["try"],
        dialog=Dialog("Test the model provider?", "Its default model gets one short message.", "Test"),
    )
    def try_out(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        provider = get_or_404(self, request, object_id)
        with acting(request):
            audit.record("ModelProviderTested", details={"provider": provider.name})
        with reported(request):
            tested = trial.try_out(provider)
            count = len(tested.models)
            listed = f" It lists {count} model{'' if count == 1 else 's'}." if count else ""
            messages.success(request, f"{visible(tested.model)} answered in {duration(tested.seconds)}.{listed}")
            if not tested.takes_tools:
                messages.warning(request, "It refuses requests with tools: agents with tools cannot use it.")
        return back_to(request, PAGE, object_id)

    @button("Choose a model", path="models", icon="list", permissions=["try"])
    def choose_model(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the models of the provider; on POST, store the chosen one as its default."""
        provider: ModelProvider = get_or_404(self, request, object_id)
        try:
            models = trial.list_models(provider)
        except AppError as error:
            messages.error(request, error.message)
            return back_to(request, PAGE, object_id)
        if request.POST.get("model") in models:
            provider.default_model = request.POST["model"]
            provider.save()
            self.log_change(request, provider, [{"changed": {"fields": ["Default model"]}}])
            messages.success(request, f"The default model is {visible(provider.default_model)}.")
            return back_to(request, PAGE, object_id)
        template, title = "admin/agents_app/modelprovider/models.html", f"Models of {provider.name}"
        return render_page(request, self, template, title=title, provider=provider, models=models)

    def has_connect_permission(self, request: HttpRequest) -> bool:
        return connection.may_connect(request.user)

    @button("Connect a model", path="connect", icon="bolt", permissions=["connect"])
    def connect(self, request: HttpRequest) -> HttpResponse:
        """Open the page that connects a model in three steps. It leads back to the list."""
        here = urlencode({"next": reverse("admin:agents_app_modelprovider_changelist")})
        return HttpResponseRedirect(f"/connect-model?{here}")

    address = columns.text("Base URL", "base_url", empty="–")
    key_is_set = columns.column("Key set", lambda provider: bool(provider.api_key_sealed), boolean=True)

    @display(description="Stored key")
    def stored_key(self, provider: ModelProvider) -> str:
        if not provider.api_key_sealed:
            return "not set"
        try:
            return f"set, fingerprint {provider_keys.fingerprint(vault.unseal(provider.api_key_sealed))}"
        except AppError:
            return "set, but cannot be decrypted with the vault key of this installation: enter it again"
