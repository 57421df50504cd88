"""Channel accounts in the admin. Secrets are encrypted when they are entered, and never shown again."""

from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from agents_app.agent_access import usable_agents
from agents_app.models import Agent
from audit_app import services as audit
from audit_app.admin_base import columns, links
from audit_app.admin_base.base import AuditedAdmin, acting, get_or_404
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.theme import Dialog, act
from audit_app.kernel.errors import AppError
from audit_app.kernel.safe_text import visible
from sessions_app.channels import accounts, open_access
from sessions_app.channels.inbound import pairing_codes
from sessions_app.channels.registry import channels
from sessions_app.models import ChannelAccount, Pairing
from tools_app.secrets import credentials

PAGE = "admin:sessions_app_channelaccount_change"

links.register_page("channel account", PAGE)


class ChannelAccountForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when run
    """The form of an account, which is validated by its adapter before it is stored. user: the operator."""

    user: User | AnonymousUser = AnonymousUser()
    channel = forms.ChoiceField(widget=UnfoldAdminSelectWidget)
    config = forms.JSONField(
        required=False,
        initial=dict,
        widget=UnfoldAdminTextareaWidget,
        help_text="A JSON object; its fields are listed in docs/channels.md.",
    )
    new_secrets = forms.JSONField(
        required=False,
        widget=UnfoldAdminTextareaWidget,
        help_text='A JSON object such as {"bot_token": "…"}. Replaces the named secrets; an empty text removes one.',
    )
    allowed_senders = forms.CharField(
        required=False, widget=UnfoldAdminTextInputWidget, help_text="Ids of senders or groups, separated by commas."
    )

    tools = forms.CharField(
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text="Names of the tools that runs for its senders may use, separated by commas, or none. Required if the "
        "account is open to everyone; otherwise empty means those of the agent.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "channel" in self.fields:
            self.fields["channel"].choices = [(name, name) for name in channels.names()]  # type: ignore[attr-defined]
        if "agent" in self.fields:
            # Whoever configures the account gives its senders the agent: only one that they may use themselves.
            usable = usable_agents(self.user) | Agent.objects.filter(pk=self.instance.agent_id)
            self.fields["agent"].queryset = usable.order_by("name")  # type: ignore[attr-defined]
        if self.instance.pk:
            self.initial["allowed_senders"] = ", ".join(self.instance.allowed_senders)
            tools = self.instance.tools
            self.initial["tools"] = "" if tools is None else ", ".join(tools) or "none"

    def clean_config(self) -> dict[str, Any]:
        return _checked_object(self.cleaned_data["config"])

    def clean_new_secrets(self) -> dict[str, Any]:
        return _checked_object(self.cleaned_data["new_secrets"])

    def clean_allowed_senders(self) -> list[str]:
        return [sender.strip() for sender in self.cleaned_data["allowed_senders"].split(",") if sender.strip()]

    def clean_tools(self) -> list[str] | None:
        return open_access.parse_tools(self.cleaned_data["tools"])

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if self.errors:
            return data
        account, secrets = self.instance, data["new_secrets"]
        if problem := credentials.refuse_references(self.user, *map(str, secrets.values())):
            raise ValidationError({"new_secrets": problem})
        try:
            kept = accounts.kept_secrets(account, secrets)
            # Otherwise an operator could have the stored secrets sent to a server of their own.
            if kept and accounts.changes_address(account, data["config"]):
                message = f"The address has changed. Enter these secrets again: {', '.join(sorted(kept))}."
                raise ValidationError({"new_secrets": message})
            account.channel = data.get("channel") or account.channel
            account.account_id, account.config = data.get("account_id") or account.account_id, data["config"]
            self.made = {} if kept else accounts.missing_secrets(account.channel, secrets)
            account.secrets_sealed = accounts.sealed_secrets(account, {**self.made, **secrets})
        except AppError as error:
            raise ValidationError(error.message) from None
        return data


def _checked_object(value: Any) -> dict[str, Any]:
    if value in (None, ""):
        return {}
    if not isinstance(value, dict):
        raise ValidationError("This must be a JSON object.")
    return value


@admin.register(ChannelAccount)
class ChannelAccountAdmin(AuditedAdmin):
    noun = "ChannelAccount"
    form = ChannelAccountForm
    list_display = ("name", "access", "answering", "is_enabled", "last_inbound_at", "last_sent_at", "problem")
    list_select_related = ("agent",)
    search_fields = ("channel", "account_id")
    readonly_fields = ("webhook", "stored_secrets", "warnings", "last_inbound_at", "last_sent_at", "problem")
    actions_detail: Any = ("try_out", "make_code", "make_own_code")
    fieldsets = (
        (None, {"fields": (("channel", "account_id"), "webhook", ("agent", "is_enabled"))}),
        ("Who may write", {"fields": ("access", "allowed_senders", ("tools", "messages_per_day"), "warnings")}),
        ("Connection", {"fields": ("config", "stored_secrets", "new_secrets")}),
        ("Health", {"fields": (("last_inbound_at", "last_sent_at"), "problem")}),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Make the names read-only that are part of the URL, which the platform stores."""
        return (*self.readonly_fields, "channel", "account_id") if obj else self.readonly_fields

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.user = request.user  # the class is made for this request
        return form

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        for danger in open_access.dangers(obj):
            messages.warning(request, danger)
        for name, secret in form.made.items():
            messages.warning(request, f"{name}, generated now and not shown again: {secret}")
        if form.cleaned_data["new_secrets"]:
            with acting(request):
                names = sorted(form.cleaned_data["new_secrets"])
                audit.record("CredentialStored", details={"account": str(obj), "names": names})

    @act(
        "Test",
        path="test",
        icon="wifi_tethering",
        permissions=["change"],
        dialog=Dialog(
            "Try this account against its platform?",
            "Requests the identity of the account from the platform, and registers the webhook where possible.",
            "Try it",
        ),
    )
    def try_out(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        account = get_or_404(self, request, object_id)
        try:
            with acting(request):
                lines = accounts.try_out(account)
            messages.success(request, " ".join(lines))
        except AppError as error:
            messages.error(request, error.message)
        return back_to(request, PAGE, object_id)

    @act(
        "Pair me",
        path="pair-me",
        icon="person_check",
        permissions=["change"],
        dialog=Dialog(
            "Create a pairing code for yourself?",
            "Send /pair and the code from your own account on the channel within fifteen minutes. "
            "After that, you can decide approval requests in that chat.",
            "Create the code",
        ),
    )
    def make_own_code(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        return self._make_code(request, object_id, cast(User, request.user))

    @act(
        "Pair a sender",
        path="pair",
        icon="link",
        permissions=["change"],
        dialog=Dialog(
            "Create a pairing code?",
            "One sender can use it within fifteen minutes, by sending /pair and the code.",
            "Create the code",
        ),
    )
    def make_code(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        return self._make_code(request, object_id, None)

    def _make_code(self, request: HttpRequest, object_id: str, user: User | None) -> HttpResponse:
        account = get_or_404(self, request, object_id)
        with acting(request):
            code = pairing_codes.make_code(account, user)
        messages.success(request, f"{'Send' if user else 'The sender has to send'}: /pair {code}")
        return back_to(request, PAGE, object_id)

    name = columns.column("Account", lambda account: visible(account))
    answering = columns.column(
        "Agent", lambda account: links.link("agent", account.agent.agent_id) if account.agent else "default"
    )

    @display(description="Warnings")
    def warnings(self, account: ChannelAccount) -> str:
        return " ".join(map(visible, open_access.dangers(account))) or "–"

    @display(description="Last error")
    def problem(self, account: ChannelAccount) -> str:
        return f"{account.last_error_at:%Y-%m-%d %H:%M}: {visible(account.last_error)}" if account.last_error else "–"

    @display(description="Webhook")
    def webhook(self, account: ChannelAccount) -> str:
        return accounts.webhook_url(account.channel, account.account_id) if account.channel else "shown when saved"

    @display(description="Stored secrets")
    def stored_secrets(self, account: ChannelAccount) -> str:
        try:
            return ", ".join(accounts.secret_names(account)) or "none"
        except AppError:
            return "this installation's vault key cannot open them: enter them again"


@admin.register(Pairing)
class PairingAdmin(AuditedAdmin):
    noun = "Pairing"
    list_display = ("sender", "account", "user", "created_at", "paired_at", "expires_at")
    list_select_related = ("account", "user")
    search_fields = ("sender_id", "sender_name")
    fields = ("account", "sender_id", "sender_name", "user", "created_at", "paired_at", "expires_at")
    readonly_fields = fields

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    sender = columns.column("Sender", lambda row: visible(row.sender_name or row.sender_id or "an open code"))
