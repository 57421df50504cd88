"""API keys in the admin: created, shown once and revoked, but not edited."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from unfold.decorators import display
from unfold.enums import ActionVariant
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminSelectMultipleWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminSplitDateTimeWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from agents_app.models import Agent
from audit_app import fresh_login
from audit_app.admin_base import columns
from audit_app.admin_base.base import OperatorFormAdmin, acting, get_or_404
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.filters import ActiveFilter
from audit_app.admin_base.permissions import granted_by, never
from audit_app.admin_base.theme import Dialog, act, bulk_act
from audit_app.fresh_login import CREATE_API_KEY
from audit_app.kernel.errors import AppError
from audit_app.kernel.safe_text import visible
from audit_app.rights import require
from sessions_app.identity import scopes
from sessions_app.identity.api_keys import NEVER, create_api_key, revoke_api_key
from sessions_app.models import ApiKey
from sessions_app.rights import REVOKE_API_KEYS, SEND_AS_ANYONE

PAGE = "admin:sessions_app_apikey_change"


class ApiKeyForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when run
    """The form of a new key. `users_for` limits its user."""

    user = forms.ModelChoiceField(User.objects.none(), widget=UnfoldAdminSelectWidget)
    name = forms.CharField(max_length=120, widget=UnfoldAdminTextInputWidget, help_text="Purpose of the key.")
    scopes = forms.MultipleChoiceField(
        choices=lambda: list(scopes.described().items()),
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="At least one surface.",
    )
    agents = forms.ModelMultipleChoiceField(
        Agent.objects.all(),
        to_field_name="agent_id",
        required=False,
        widget=UnfoldAdminSelectMultipleWidget,
        help_text="The key may use only these agents and their sessions. None: every agent that its user may use.",
    )
    expires_at = forms.SplitDateTimeField(
        required=False,
        widget=UnfoldAdminSplitDateTimeWidget,
        help_text="In UTC. Empty: KOMAND_API_KEY_DAYS days from now.",
    )
    never_expires = forms.BooleanField(required=False, widget=UnfoldBooleanSwitchWidget)

    operator: User

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["user"].queryset = users_for(self.operator)  # type: ignore[attr-defined]
        self.fields["user"].initial = self.operator

    def clean_expires_at(self) -> Any:
        expires_at = self.cleaned_data["expires_at"]
        if expires_at and expires_at <= timezone.now():
            raise forms.ValidationError("The key would expire in the past.")
        return expires_at

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if "scopes" not in cleaned:
            return cleaned
        named = [f"{scopes.AGENT}{agent.agent_id}" for agent in cleaned.get("agents") or ()]
        try:
            cleaned["scopes"] = scopes.checked([*cleaned["scopes"], *named])
            if scopes.SENDERS_ANY in cleaned["scopes"]:
                require(self.operator, SEND_AS_ANYONE)
        except AppError as error:
            self.add_error("scopes", error.message)
        is_foreign = cleaned.get("user") != self.operator and not self.operator.is_superuser
        if is_foreign and scopes.RIGHTS in cleaned.get("scopes", ()):
            self.add_error("scopes", f"Only a superuser may give a key of another user the scope `{scopes.RIGHTS}`.")
        return cleaned


def users_for(operator: User) -> QuerySet[User]:
    """Return the users for whom an operator can create keys. Only a superuser can do so for other staff."""
    users = User.objects.filter(is_active=True).order_by("username")
    if operator.is_superuser:
        return users
    return users.filter(is_staff=False, is_superuser=False) | users.filter(pk=operator.pk)


class StateFilter(ActiveFilter):
    ended = "revoked"


@admin.register(ApiKey)
class ApiKeyAdmin(OperatorFormAdmin):
    empty_text = "API keys let programs use Komand as a user."
    form = ApiKeyForm
    list_display = ("name", "beginning", "user", "scope_names", "state", "created_at", "expires_at", "last_used_at")
    list_display_links = ("name",)
    list_filter = (StateFilter,)
    list_filter_submit = True
    list_select_related = ("user",)
    search_fields = ("name", "prefix", "user__username")
    actions = ("revoke_selected",)
    actions_detail: Any = ("revoke",)
    fields = ("user", "name", "scopes", "agents", "expires_at", "never_expires")

    def add_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if self.has_add_permission(request):  # others get the usual refusal
            fresh_login.require(request, CREATE_API_KEY)
        return super().add_view(request, *args, **kwargs)

    has_change_permission = has_delete_permission = never
    has_revoke_permission = granted_by(REVOKE_API_KEYS)

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> tuple[str, ...]:
        return (*self.list_display, "revoked_at") if obj else self.fields

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Show only the save button, because the response shows the key."""
        context |= {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        data = form.cleaned_data
        with acting(request):
            expires_at = NEVER if data["never_expires"] else data["expires_at"]
            made = create_api_key(data["user"], data["name"], scopes=data["scopes"], expires_at=expires_at)
        obj.pk, obj.prefix = made.row.pk, made.row.prefix
        obj.shown_once = made.key  # for response_add, which handles the same request

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None) -> HttpResponse:
        """Show the key in this response only: it is in no message, cookie or redirect, and not cached."""
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Your new key",
            "key": obj.shown_once,  # type: ignore[attr-defined]
            "row": obj,
        }
        return TemplateResponse(request, "admin/sessions_app/apikey/made.html", context)

    @act(
        "Revoke",
        path="revoke",
        icon="block",
        permissions=["revoke"],
        variant=ActionVariant.DANGER,
        dialog=Dialog(
            "Revoke this key?", "Requests with this key are refused from now on. This cannot be undone.", "Revoke it"
        ),
    )
    def revoke(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        self._revoke(request, get_or_404(self, request, object_id))
        return back_to(request, PAGE, object_id)

    @bulk_act("Revoke", permissions=["revoke"], question="Revoke these keys?", submit="Revoke them")
    def revoke_selected(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        for key in keys:
            self._revoke(request, key)

    def _revoke(self, request: HttpRequest, key: ApiKey) -> None:
        with acting(request):
            revoke_api_key(key.user, key.pk)
        messages.success(request, f"The key {visible(key.name)} is revoked.")

    beginning = columns.column("Key", lambda key: f"sk-user-{key.prefix}…")
    scope_names = columns.column("Scopes", lambda key: ", ".join(key.scopes) or "–")

    @display(description="State", label={"active": "success", "expired": "warning", "revoked": "danger"})
    def state(self, key: ApiKey) -> str:
        if key.revoked_at:
            return "revoked"
        return "expired" if key.expires_at and key.expires_at <= timezone.now() else "active"
