"""Channel accounts in the admin. Secrets are encrypted when they are entered, and never shown again."""

from typing import Any, ClassVar, cast

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.forms.widgets import Script
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe
from unfold.decorators import display

from audit_app import services as audit
from audit_app.admin_base import columns, links
from audit_app.admin_base.base import AuditedAdmin, acting, get_or_404, reported
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.permissions import never
from audit_app.admin_base.theme import Dialog, act, button
from audit_app.kernel.errors import AppError
from audit_app.kernel.safe_text import visible
from sessions_app.admin import account_form, channel_routes, set_up_page
from sessions_app.channels import account_state, accounts, open_access
from sessions_app.channels.connections import condition
from sessions_app.channels.inbound import pairing_codes
from sessions_app.models import ChannelAccount, Pairing
from sessions_app.platforms.registry import channels, own_senders
from sessions_app.surfaces.base.addresses import origin_for
from sessions_app.surfaces.base.markdown import render

PAGE = "admin:sessions_app_channelaccount_change"

links.register_page("channel account", PAGE)
_NAME = "nameoftheaccount"  # stands for the name in guides, which the page fills in as it is typed


def _guides(request: HttpRequest) -> str:
    """Return the guides of all channels; the page of a new account shows the one of its channel."""
    name = format_html('<span x-text="account_id">{}</span>', "default")
    shown = (
        # The texts are those of adapters, and sanitised.
        (when, mark_safe(render(guide).replace(_NAME, name)))  # noqa: S308
        for when, guide in account_form.guides(_NAME, origin_for(request))
    )
    return format_html_join("", '<div class="k-guide" x-show="{}">{}</div>', shown)


def _is_orphaned(account: Any) -> bool:
    """Return whether no installed package has the channel of a stored account."""
    return isinstance(account, ChannelAccount) and channels.find(account.channel) is None


@admin.register(ChannelAccount)
class ChannelAccountAdmin(AuditedAdmin):
    class Media:
        js: ClassVar[Any] = [Script("js/copy-buttons.js", type="module")]

    empty_text = "Channels let people write to agents from Telegram, Slack and others."
    noun = "ChannelAccount"
    list_display = ("name", "access", "answering", "is_enabled", "last_inbound_at", "last_sent_at", "problem")
    list_select_related = ("agent",)
    search_fields = ("channel", "account_id")
    readonly_fields = (
        "webhook",
        "stored_secrets",
        "routes",
        "warnings",
        "last_inbound_at",
        "last_sent_at",
        "connection_state",
        "problem",
        "refused",
    )
    actions_detail: Any = ("set_up", "try_out", "make_code", "make_own_code")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).exclude(channel__in=own_senders.names())

    @property
    def conditional_fields(self) -> dict[str, str]:
        return account_form.conditions()

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if _is_orphaned(obj):
            return ((None, {"fields": (("channel", "account_id"), "no_channel")}),)
        asked, others = account_form.asked_names(obj), account_form.other_names(obj)
        who = ["access", "allowed_senders", ("tools", "messages_per_day")]
        if obj is None:
            return (
                (None, {"fields": (("channel", "account_id"), "agent")}),
                ("Connection", {"fields": asked, "description": _guides(request)}),
                ("Who may write", {"fields": who}),
                ("More settings", {"fields": ("is_enabled", *others), "classes": ("collapse",)}),
            )
        health = (("last_inbound_at", "last_sent_at"), "connection_state", "problem", "refused")
        return (
            (None, {"fields": (("channel", "account_id"), "webhook", ("agent", "is_enabled"), "routes")}),
            ("Connection", {"fields": (*asked, "stored_secrets")}),
            ("Who may write", {"fields": (*who, "warnings")}),
            ("More settings", {"fields": others, "classes": ("collapse",)}),
            ("Health", {"fields": health}),
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Make the names read-only that are part of the URL, which the platform stores."""
        return (*self.readonly_fields, "no_channel", "channel", "account_id") if obj else self.readonly_fields

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and not _is_orphaned(obj)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        return (
            [] if _is_orphaned(self.get_object(request, object_id)) else super().get_actions_detail(request, object_id)
        )

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if _is_orphaned(obj):
            return super().get_form(request, obj, change, **kwargs)
        if obj:
            obj.reached_at = origin_for(request)
        kwargs["form"] = account_form.form_for(obj)
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.user = request.user  # the class is made for this request
        return form

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        for danger in open_access.dangers(obj):
            messages.warning(request, danger)
        for name, secret in accounts.shown_once(obj.channel, form.made).items():
            purpose, _, _ = channels.get(obj.channel).secret_fields[name].partition(";")  # then follows its default
            title = name.replace("_", " ").capitalize()
            shown = {"name": name, "title": title, "secret": secret, "purpose": purpose}
            messages.info(request, render_to_string("admin/sessions_app/channelaccount/secret.html", shown))
        if form.cleaned_data["new_secrets"]:
            with acting(request):
                names = sorted(form.cleaned_data["new_secrets"])
                audit.record("CredentialStored", details={"account": str(obj), "names": names})

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> HttpResponse:
        """Go on to the set-up page after "Save"."""
        if {"_addanother", "_continue", "_popup"} & {*request.POST}:
            return super().response_add(request, obj, post_url_continue)
        return HttpResponseRedirect(reverse("admin:sessions_app_channelaccount_set_up", args=[obj.pk]))

    @button("Set up", path="set-up", icon="checklist", permissions=["change"])
    def set_up(self, request: HttpRequest, object_id: str) -> HttpResponse:
        account = get_or_404(self, request, object_id)
        with reported(request):
            return set_up_page.page(request, self, account)
        return back_to(request, PAGE, object_id)

    @act(
        "Test",
        path="test",
        icon="wifi_tethering",
        permissions=["change"],
        dialog=Dialog(
            "Test the connection?",
            "This checks the credentials of the account, and registers the webhook where the platform allows it.",
            "Test",
        ),
    )
    def try_out(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        account = get_or_404(self, request, object_id)
        with reported(request):
            messages.success(request, " ".join(accounts.try_out(account).lines))
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

    @display(description="Problem")
    def no_channel(self, account: ChannelAccount) -> str:
        return "The channel is not installed. Install its package and restart Komand, or delete this account."

    @display(description="Warnings")
    def warnings(self, account: ChannelAccount) -> str:
        return " ".join(map(visible, open_access.dangers(account))) or "–"

    @display(description="Last error")
    def problem(self, account: ChannelAccount) -> str:
        return f"{account.last_error_at:%Y-%m-%d %H:%M}: {visible(account.last_error)}" if account.last_error else "–"

    @display(description="Routes")
    def routes(self, account: ChannelAccount) -> str:
        query, number = {"account__id__exact": account.pk}, account.routes.count()
        return links.list_link(channel_routes.LIST, query, f"{number:,} {'route' if number == 1 else 'routes'}")

    @display(description="Refused messages")
    def refused(self, account: ChannelAccount) -> str:
        return f"{account_state.count_refused(account):,} in the last 24 hours"

    @display(description="Connection")
    def connection_state(self, account: ChannelAccount) -> str:
        found = condition.describe(account)
        if found is None:
            return "none: it receives by webhook"
        return visible(f"{found.text} ({found.remedy})" if found.remedy else found.text)

    @display(description="Webhook")
    def webhook(self, account: Any) -> str:
        address = accounts.webhook_url(account.channel, account.account_id)
        if settings.KOMAND_PUBLIC_URL:
            return address
        return f"{account.reached_at}{address} (as this page was reached; set KOMAND_PUBLIC_URL to the public address)"

    @display(description="Stored secrets")
    def stored_secrets(self, account: ChannelAccount) -> str:
        try:
            return ", ".join(accounts.secret_names(account)) or "none"
        except AppError:
            return "this installation's vault key cannot open them: enter them again"


@admin.register(Pairing)
class PairingAdmin(AuditedAdmin):
    empty_text = "People appear here when they link their account of a channel to a user."
    noun = "Pairing"
    list_display = ("sender", "account", "user", "created_at", "paired_at", "expires_at")
    list_select_related = ("account", "user")
    search_fields = ("sender_id", "sender_name")
    fields = ("account", "sender_id", "sender_name", "paired_user", "created_at", "paired_at", "expires_at")
    readonly_fields = fields

    has_add_permission = never

    sender = columns.column("Sender", lambda row: visible(row.sender_name or row.sender_id or "an open code"))
    # Without Django's link: the pages of users are closed to most roles.
    paired_user = columns.column("User", lambda row: visible(row.user or "–"))
