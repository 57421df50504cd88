"""Forms by which operators set up agents and model providers."""

from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from agents_app.models import Agent, ModelProvider
from agents_app.providers import registry as providers
from tools_app.registry import tools


class NamesField(forms.CharField):
    """A list of names, typed with commas between them."""

    widget = UnfoldAdminTextInputWidget

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(str(name) for name in value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str]:
        text: str = super().clean(value)
        return [name.strip() for name in text.split(",") if name.strip()]


class AgentForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when run
    """An agent. Its tools are chosen by name, or are all that are registered, also those added later."""

    all_tools = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanSwitchWidget,
        label="All tools",
        help_text="Every registered tool, also those added later.",
    )
    chosen_tools = forms.MultipleChoiceField(
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        label="Tools",
        help_text="Used when not all tools are.",
    )
    allowed_channels = NamesField(
        required=False, help_text="Names with commas between, such as WebChat. Empty: all channels."
    )
    enabled_skill_ids = NamesField(required=False, label="Skills", help_text="Ids with commas between.")

    class Meta:
        model = Agent
        fields = [
            "agent_id", "name", "description", "provider", "model_id", "system_prompt", "max_context_tokens",
            "allowed_channels", "autonomy", "enabled_skill_ids", "busy_policy", "queue_limit", "max_tool_rounds",
            "max_active_seconds", "max_call_seconds", "max_idle_seconds", "max_tries", "retry_first_seconds",
            "retry_max_seconds",
        ]  # fmt: skip
        labels = {"model_id": "Model", "agent_id": "Agent id"}
        widgets = {"description": UnfoldAdminTextareaWidget(attrs={"rows": 2})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        chosen = self.instance.enabled_tools
        names = sorted({*tools.names(), *(chosen or [])})
        self.fields["chosen_tools"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]
        self.initial.setdefault("all_tools", chosen is None)
        self.initial.setdefault("chosen_tools", chosen or [])

    def save(self, commit: bool = True) -> Agent:
        every = self.cleaned_data["all_tools"]
        self.instance.enabled_tools = None if every else sorted(self.cleaned_data["chosen_tools"])
        agent: Agent = super().save(commit)
        return agent


class ProviderForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when run
    """A model provider. Its key goes in and never comes out: the browser is never sent the stored one."""

    kind = forms.ChoiceField(widget=UnfoldAdminSelectWidget)
    new_key = forms.CharField(
        required=False,
        strip=True,
        max_length=4000,
        label="New key",
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Stored encrypted. Leave it empty to keep the present one.",
    )
    remove_key = forms.BooleanField(required=False, widget=UnfoldBooleanSwitchWidget, label="Remove the stored key")

    class Meta:
        model = ModelProvider
        fields = ["name", "kind", "base_url", "default_model", "is_enabled"]
        labels = {"base_url": "Address", "is_enabled": "Enabled"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        kinds = sorted({*providers.kinds(), *filter(None, [self.instance.kind])})
        self.fields["kind"].choices = [(kind, kind) for kind in kinds]  # type: ignore[attr-defined]

    def clean_base_url(self) -> str:
        url: str = self.cleaned_data["base_url"].strip()
        if url and not url.startswith(("http://", "https://")):
            raise forms.ValidationError("The address begins with http:// or https://.")
        return url

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        new_key, remove = cleaned.get("new_key"), cleaned.get("remove_key")
        if new_key and remove:
            self.add_error("remove_key", "Either give a new key or remove the stored one.")
        # Otherwise whoever may edit addresses could have the stored key sent to a server of theirs.
        if "base_url" in self.changed_data and self.instance.api_key_sealed and not (new_key or remove):
            self.add_error("new_key", "The address has changed. Enter the key for it, or remove the stored one.")
        return cleaned
