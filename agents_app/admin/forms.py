"""Forms of agents and model providers. Their models and fields are set by the pages that use them."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.utils.safestring import mark_safe
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from agents_app.configuration import prompt_templates
from agents_app.configuration.agents import broken_references
from agents_app.configuration.fallbacks import format_fallbacks, parse_fallbacks
from agents_app.configuration.required_rights import may_view_templates, require_rights
from agents_app.models import Agent
from agents_app.providers import registry as providers
from agents_app.types.agent_limits import BUDGETS
from audit_app import services as audit
from audit_app.fresh_login import GRANT_AUTONOMY
from audit_app.rights import MissingRight
from tools_app.admin.rule_fields import LinesField, hosts_field, patterns_field
from tools_app.registry import tools
from tools_app.secrets import credentials

_BUDGETS = {"actions_per_hour": "actionsPerHour", "cost_per_hour": "costPerHour"}
_BUDGETS |= {"cost_per_day": "costPerDay", "cost_per_month": "costPerMonth"}


_PRICES_OF_ONE = (
    "Two prices of 1 stand for none, as in earlier versions. "
    "Leave both empty, or enter them as the price of the model *."
)


class NamesField(forms.CharField):
    """A list of names, separated by commas."""

    widget = UnfoldAdminTextInputWidget

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(str(name) for name in value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str]:
        text: str = super().clean(value)
        return [name.strip() for name in text.split(",") if name.strip()]


class FallbacksField(forms.CharField):
    """A fallback chain, as one `provider/model` a line."""

    widget = UnfoldAdminTextareaWidget(attrs={"rows": 2})

    def prepare_value(self, value: Any) -> Any:
        return format_fallbacks(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[dict[str, str]]:
        return parse_fallbacks(super().clean(value))


def _budget_field(name: str, label: str, help_text: str = "") -> forms.Field:
    budget = BUDGETS[name]
    kind, widget = (
        (forms.IntegerField, UnfoldAdminIntegerFieldWidget)
        if budget.is_whole
        else (forms.FloatField, UnfoldAdminDecimalFieldWidget)
    )
    options: dict[str, Any] = {"required": False, "label": label, "help_text": help_text}
    return kind(min_value=0, max_value=budget.most, widget=widget, **options)


class AgentForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when run
    """The form of an agent. Its tools are all registered ones, including later ones, or chosen by name.

    user: the operator.
    has_fresh_login: as for `fresh_login.require`.
    """

    user: User | AnonymousUser = AnonymousUser()
    has_fresh_login = False
    all_tools = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanSwitchWidget,
        label="All tools",
        help_text="All registered tools, including those that are added later.",
    )
    chosen_tools = forms.MultipleChoiceField(
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        label="Tools",
        help_text="Used unless all tools are selected.",
    )
    starters = LinesField(help_text="Messages that a new chat with the agent offers as buttons, one a line.")
    allowed_channels = NamesField(
        required=False, help_text="Comma-separated, such as WebChat. Leave empty for all channels."
    )
    mcp_servers = NamesField(
        required=False, label="MCP servers", help_text="Names separated by commas, for the mode list."
    )
    egress_servers = NamesField(
        required=False,
        label="MCP servers that get data without asking",
        help_text="Names separated by commas. After a run has read from outside, calls to other servers ask a person.",
    )
    workstream_agents = NamesField(
        required=False,
        label="Agents for workstreams",
        help_text="Ids of other agents that it may launch, separated by commas. Each run uses those of its user.",
    )
    enabled_skill_ids = NamesField(required=False, label="Skills", help_text="Ids separated by commas.")
    denied_tools = patterns_field("Denied calls", "Always denied, whatever other rules allow.")
    always_ask = patterns_field("Calls that always ask", "A person has to approve each.")
    auto_approve = patterns_field("Allowed without asking", "These calls run without approval.")
    allowed_tools = patterns_field("Allowed calls", "Nothing else is allowed; empty: no restriction.")
    allowed_hosts = hosts_field("Allowed hosts", "Calls reach no others; empty: no restriction.")
    denied_hosts = hosts_field("Denied hosts", "Calls never reach them.")
    fallbacks = FallbacksField(
        required=False,
        help_text="Models that answer while the agent's own cannot, in this order: one provider/model a line.",
    )
    actions_per_hour = _budget_field("actionsPerHour", "Calls per hour", "Empty: no limit.")
    cost_per_hour = _budget_field(
        "costPerHour", "Cost per hour", "Cost of model calls, in the currency of prices. Empty: no limit."
    )
    cost_per_day = _budget_field("costPerDay", "Cost per day (UTC)")
    cost_per_month = _budget_field("costPerMonth", "Cost per month (UTC)")

    class Meta:
        labels = {
            "model_id": "Model",
            "agent_id": "Agent id",
            "mcp_servers_mode": "MCP servers",
            "tool_profile": "Tools shown to the model",
            "busy_policy": "When a message arrives during an answer",
            "max_active_seconds": "Longest working time (s)",
            "needs_two_approvers": "Two people must approve",
        }
        widgets = {"description": UnfoldAdminTextareaWidget(attrs={"rows": 2})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        chosen = self.instance.enabled_tools
        names = sorted({*tools.names(), *(chosen or [])})
        self.fields["chosen_tools"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]
        if "template" in self.fields:  # not for who may only view the agent
            self.fields["template"].widget = UnfoldAdminSelectWidget(choices=self._templates())
        self.initial.setdefault("all_tools", chosen is None)
        self.initial.setdefault("chosen_tools", chosen or [])
        for name, key in _BUDGETS.items():
            self.initial.setdefault(name, self.instance.budgets.get(key))

    def clean_description(self) -> str | None:
        """Return None for an empty description of an agent that has none: null and empty differ in the API."""
        return self.cleaned_data["description"] or ("" if self.instance.description is not None else None)

    def _templates(self) -> list[tuple[str, str]]:
        shown = prompt_templates.list_templates() if may_view_templates(self.user) else ()
        names = dict.fromkeys(["", *(template.name for template in shown), self.instance.template])
        return [(name, name or "none") for name in names]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not cleaned.get("template") and not cleaned.get("system_prompt"):
            self.add_error("system_prompt", "Enter a system prompt, or choose a template.")
        # The form may show the draft: the rights are about what differs from the stored agent.
        stored = Agent.objects.filter(pk=self.instance.pk).first()
        try:
            needs_fresh_login = require_rights(self.user, cleaned, stored)
        except MissingRight as refusal:
            self.add_error(None, refusal.message)
            return cleaned
        if needs_fresh_login and not self.has_fresh_login:
            audit.record("FreshLoginRequired", actor=f"user:{self.user.pk}", details={"action": GRANT_AUTONOMY})
            link = '<a href="/login/confirm" target="_blank" class="underline">confirm your login</a>'
            text = f"To {GRANT_AUTONOMY}, {link} in another tab, then save again."
            self.add_error(None, mark_safe(text))  # noqa: S308 - constants
        return cleaned

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # the stubs leave it out; it applies the rules of the model
        for name, error in broken_references(self.instance).items() if not self.errors else ():
            self.add_error(name, error.message)

    def save(self, commit: bool = True) -> Agent:
        every = self.cleaned_data["all_tools"]
        self.instance.enabled_tools = None if every else sorted(self.cleaned_data["chosen_tools"])
        given = {key: self.cleaned_data[name] for name, key in _BUDGETS.items()}
        self.instance.budgets = {key: value for key, value in given.items() if value is not None}
        agent: Agent = super().save(commit)
        return agent


class ProviderForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when run
    """The form of a model provider. The stored key is never sent to the browser. user: the operator."""

    user: User | AnonymousUser = AnonymousUser()
    kind = forms.ChoiceField(widget=UnfoldAdminSelectWidget)
    new_key = forms.CharField(
        required=False,
        strip=True,
        max_length=4000,
        label="New key",
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Stored encrypted, or {{credential:NAME}}. Leave empty to keep the current key.",
    )
    remove_key = forms.BooleanField(required=False, widget=UnfoldBooleanSwitchWidget, label="Remove the stored key")

    class Meta:
        labels = {"base_url": "Base URL", "is_enabled": "Enabled"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        kinds = sorted({*providers.kinds(), *filter(None, [self.instance.kind])})
        self.fields["kind"].choices = [(kind, kind) for kind in kinds]  # type: ignore[attr-defined]
        for name in ("input_price", "output_price") if settings.KOMAND_CURRENCY else ():
            if name in self.fields:  # not for who may only view the provider
                self.fields[name].label = f"{self.fields[name].label} ({settings.KOMAND_CURRENCY})"
        if self.instance.price is None:
            self.initial.update(input_price=None, output_price=None)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        new_key, remove = cleaned.get("new_key"), cleaned.get("remove_key")
        if problem := credentials.refuse_references(self.user, new_key or ""):
            self.add_error("new_key", problem)
        if cleaned.get("input_price") == cleaned.get("output_price") == 1:
            self.add_error("input_price", _PRICES_OF_ONE)
        if new_key and remove:
            self.add_error("remove_key", "Either give a new key or remove the stored one.")
        # Otherwise an operator could have the stored key sent to a server of their own.
        if "base_url" in self.changed_data and self.instance.api_key_sealed and not (new_key or remove):
            self.add_error("new_key", "The address has changed. Enter the key for it, or remove the stored one.")
        return cleaned
