"""Routes of channel accounts in the admin. Who may change channel accounts may change them."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from agents_app.configuration import agent_access
from agents_app.models import Agent, StoredNetwork
from agents_app.network_runs import library
from audit_app.admin_base import columns, links
from audit_app.admin_base.base import OperatorFormAdmin, acting
from audit_app.admin_base.filters import RelatedFilter
from audit_app.admin_base.permissions import granted_by
from audit_app.kernel.errors import AppError
from audit_app.kernel.safe_text import visible
from audit_app.rights import holds
from sessions_app.channels import routes
from sessions_app.models import ChannelRoute
from sessions_app.rights import MANAGE_CHANNELS, VIEW_CHANNELS

LIST = "admin:sessions_app_channelroute_changelist"


class RouteForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when run
    """The form of a route, whose agent or network the operator may use."""

    operator: Any

    class Meta:
        model = ChannelRoute
        fields = ("account", "chat_id", "sender_id", "agent", "network")
        widgets = {
            "account": UnfoldAdminSelectWidget,
            "chat_id": UnfoldAdminTextInputWidget,
            "sender_id": UnfoldAdminTextInputWidget,
            "agent": UnfoldAdminSelectWidget,
            "network": UnfoldAdminSelectWidget,
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "agent" in self.fields:  # not on the page of somebody who may only look
            usable = agent_access.usable_agents(self.operator) | Agent.objects.filter(pk=self.instance.agent_id)
            seen = library.visible_networks(self.operator) | StoredNetwork.objects.filter(pk=self.instance.network_id)
            self.fields["agent"].queryset = usable.order_by("name")  # type: ignore[attr-defined]
            self.fields["network"].queryset = seen.order_by("name")  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        agent, network = data.get("agent"), data.get("network")
        if not self.errors:
            try:
                if network and "network" in self.changed_data:
                    library.read(network.definition, agent_access.usable_agents(self.operator))
                routes.check_target(data.get("account") or self.instance.account, agent, network)
            except AppError as error:
                raise forms.ValidationError(error.message) from None
        return data


@admin.register(ChannelRoute)
class ChannelRouteAdmin(OperatorFormAdmin):
    form = RouteForm
    list_display = ("place", "account", "answering", "set_by", "updated_at")
    list_select_related = ("account", "agent", "network")
    list_filter = (("account", RelatedFilter),)
    list_filter_submit = True
    search_fields = ("=chat_id", "=sender_id")
    empty_text = "Routes give some chats or senders of a channel another agent."
    search_help_text = "The platform's id of a chat or a sender"

    place = columns.column("For", lambda route: visible(route))
    answering = columns.column(
        "Answers",
        lambda route: (
            f"network {visible(route.network)}" if route.network else links.link("agent", route.agent.agent_id)
        ),
    )
    set_by = columns.column("Set by", lambda route: "a sender" if route.is_chosen else "an operator")

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return holds(request.user, VIEW_CHANNELS) or holds(request.user, MANAGE_CHANNELS)

    has_add_permission = has_change_permission = has_delete_permission = granted_by(MANAGE_CHANNELS)

    def get_actions(self, request: HttpRequest) -> Any:
        return {}

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("account",) if obj else ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        with acting(request):
            routes.save(obj)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        with acting(request):
            routes.remove(obj)
