"""The form of a channel account: a field for each setting and secret that its adapter declares.

The fields of all channels are on the page of a new account; those of the chosen one are shown.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from django import forms
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ValidationError
from django.utils.html import format_html
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from agents_app.configuration.agent_access import usable_agents
from agents_app.models import Agent
from audit_app.kernel.errors import AppError
from sessions_app.admin.picture_field import PictureField
from sessions_app.channels import accounts, open_access
from sessions_app.channels.guides import guide_of
from sessions_app.models import ChannelAccount
from sessions_app.platforms.account_settings import SHARED_SETTINGS, Setting
from sessions_app.platforms.base import ChannelAdapter
from sessions_app.platforms.registry import channels
from tools_app.admin.rule_fields import patterns_field
from tools_app.secrets import credentials

_SHARED = "shared"
_OWN = "own"
_SPELLINGS = {"oauth": "OAuth", "readonly": "read-only"} | {
    word: word.upper() for word in ("api", "imap", "smtp", "tls", "url")
}
_FLAGS = [("", "Default"), ("true", "Yes"), ("false", "No")]


class IdsField(forms.CharField):
    """A list of ids, separated by commas."""

    widget = UnfoldAdminTextInputWidget

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(map(str, value)) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str]:
        text: str = super().clean(value)
        return [part.strip() for part in text.split(",") if part.strip()]


class ChannelAccountForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when run
    """The form of an account, which is validated by its adapter before it is stored. user: the operator.

    The fields of settings and secrets are added by `form_for`. After validation, `cleaned_data` has them as `config`
    and `new_secrets`, and `made` the secrets that were generated.
    """

    user: User | AnonymousUser = AnonymousUser()
    channel = forms.ChoiceField(widget=UnfoldAdminSelectWidget)
    allowed_senders = IdsField(required=False, help_text="Ids of senders or groups, separated by commas.")
    tools = forms.CharField(
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text="Names of the tools that runs for its senders may use, separated by commas, or none. Required if the "
        "account is open to everyone; otherwise empty means those of the agent.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "channel" in self.fields:
            names = [(name, channels.get(name).name) for name in channels.names()]
            self.fields["channel"].choices = names  # type: ignore[attr-defined]
        if "agent" in self.fields:
            # Whoever configures the account gives its senders the agent: only one that they may use themselves.
            usable = usable_agents(self.user) | Agent.objects.filter(pk=self.instance.agent_id)
            self.fields["agent"].queryset = usable.order_by("name")  # type: ignore[attr-defined]
        if not self.instance._state.adding:
            tools = self.instance.tools
            self.initial["tools"] = "" if tools is None else ", ".join(tools) or "none"
            for key, name, _ in _settings_of(self.instance.channel, self._prefix):
                value = self.instance.config.get(name)
                self.initial[key] = str(value).lower() if isinstance(value, bool) else value

    @property
    def _prefix(self) -> str:
        return str(self.data.get("channel", "")) if self.instance._state.adding else _OWN

    def clean_tools(self) -> list[str] | None:
        return open_access.parse_tools(self.cleaned_data["tools"])

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        channel = data.get("channel") or self.instance.channel
        if self.errors or not channel:
            return data
        data["config"] = self._read_config(channel, data)
        data["new_secrets"] = self._read_secrets(channels.get(channel), data)
        self._check_required(channel, data)
        if not self.errors:
            try:
                self._apply(channel, data)
            except AppError as error:
                raise ValidationError(error.message) from None
        return data

    def _read_config(self, channel: str, data: Mapping[str, Any]) -> dict[str, Any]:
        config = {}
        for key, name, setting in _settings_of(channel, self._prefix):
            value = data.get(key)
            problem = ""
            if value not in (None, "", []):
                config[name], problem = value, setting.problem(value)
            if setting.kind == "agents" and value:
                problem = problem or self._agents_problem(name, value)
            if problem:
                self.add_error(key, f"This {problem}.")
        return config

    def _agents_problem(self, name: str, agent_ids: list[str]) -> str:
        """Return the problem with agents that the operator may not use, unless the account has them already."""
        new = {*agent_ids} - {*map(str, self.instance.config.get(name) or ())}
        usable = usable_agents(self.user).filter(agent_id__in=new).values_list("agent_id", flat=True)
        unknown = sorted(new - {*usable})
        return f"names no agent that you may use: {', '.join(unknown)}" if unknown else ""

    def _read_secrets(self, adapter: type[ChannelAdapter], data: Mapping[str, Any]) -> dict[str, str]:
        given = {name: data.get(f"{self._prefix}__{name}") or "" for name in adapter.secret_fields}
        for name, secret in given.items():
            if problem := credentials.refuse_references(self.user, secret):
                self.add_error(f"{self._prefix}__{name}", problem)
        removed = dict.fromkeys(data.get("remove_secrets", ()), "")
        return {**removed, **{name: secret for name, secret in given.items() if secret}}

    def _check_required(self, channel: str, data: Mapping[str, Any]) -> None:
        """Mark what is missing. Of a stored account, secrets are checked with those that are kept."""
        adapter, given = channels.get(channel), {**data["config"], **data["new_secrets"]}
        settings = accounts.settings_of(channel, "", data["config"], data["new_secrets"])
        needed = [name for name, default in adapter.asks(settings).items() if default is None and not given.get(name)]
        for name in needed:
            is_stored = name in adapter.secret_fields and not self.instance._state.adding
            if not is_stored and name not in adapter.make_secrets() and f"{self._prefix}__{name}" not in self.errors:
                self.add_error(f"{self._prefix}__{name}", "This is required.")

    def _apply(self, channel: str, data: Mapping[str, Any]) -> None:
        """Set the columns of the account. Raises AppError and ValidationError."""
        account, secrets = self.instance, data["new_secrets"]
        kept = accounts.kept_secrets(account, secrets)
        # Otherwise an operator could have the stored secrets sent to a server of their own.
        if again := accounts.sent_elsewhere(account, data["config"], kept) if kept else ():
            raise ValidationError(f"The address has changed. Enter these secrets again: {', '.join(again)}.")
        account.channel = channel
        account.account_id, account.config = data.get("account_id") or account.account_id, data["config"]
        self.made = {} if kept else accounts.missing_secrets(channel, secrets)
        account.secrets_sealed = accounts.sealed_secrets(account, {**self.made, **secrets})


def form_for(account: ChannelAccount | None) -> type[ChannelAccountForm]:
    """Return the form with the fields of the account's channel, or of all channels for a new account."""
    # The channel of an account is part of its URL and never changes: None removes the field.
    fields: dict[str, forms.Field | None] = {"channel": None} if account else {}
    stored = stored_secrets(account) if account else ()
    for prefix, slug in _channels(account):
        fields |= {key: _setting_field(name, setting) for key, name, setting in _settings_of(slug, prefix)}
        adapter = channels.get(slug)
        fields |= {
            f"{prefix}__{name}": _secret_field(name, help_text, name in stored)
            for name, help_text in adapter.secret_fields.items()
        }
        for name, default in _asked(slug, account).items():
            _mark(fields[f"{prefix}__{name}"], default, is_stored=name in stored)
    if account and (removable := _removable(account)):
        choices = [(name, _label(name)) for name in removable]
        widget = UnfoldAdminCheckboxSelectMultipleWidget
        fields["remove_secrets"] = forms.MultipleChoiceField(required=False, choices=choices, widget=widget)
    return type("ChannelAccountForm", (ChannelAccountForm,), fields)


def asked_names(account: ChannelAccount | None) -> tuple[str, ...]:
    """Return the names of the fields of `form_for` that an account of the channel needs, or has good defaults for."""
    return tuple(f"{prefix}__{name}" for prefix, slug in _channels(account) for name in _asked(slug, account))


def other_names(account: ChannelAccount | None) -> tuple[str, ...]:
    """Return the names of the further fields of `form_for`."""
    asked = {*asked_names(account)}
    own = [name for prefix, slug in _channels(account) for name in _names_of(slug, prefix) if name not in asked]
    removal = ["remove_secrets"] if account and _removable(account) else []
    return (*own, *removal, *(f"{_SHARED}__{name}" for name in SHARED_SETTINGS))


def conditions() -> dict[str, str]:
    """Return when the page of a new account shows a field: for its channel, if it is asked for."""
    found = {name: f"channel == '{slug}'" for slug in channels.names() for name in _names_of(slug, slug)}
    for slug in channels.names():
        by_way = _asks_by_way(slug, None)
        for name in _asked(slug, None):
            if ways := [way for way, asks in by_way.items() if name in asks]:
                found[f"{slug}__{name}"] = shown_for(slug, ways)
    return found


def guides(account_id: str, reached_at: str) -> Iterator[tuple[str, str]]:
    """Yield the condition of each guide of a channel, and what the guide says is done before an account is added."""
    for slug in channels.names():
        ways: dict[str, list[str]] = {}
        for way in _asks_by_way(slug, None):
            text, _ = guide_of(slug, account_id, _config_of(slug, way), reached_at=reached_at)
            ways.setdefault(text, []).append(way)
        yield from ((shown_for(slug, of_text), text) for text, of_text in ways.items())


def shown_for(slug: str, ways: Collection[str]) -> str:
    """Return the condition of what is shown for a channel with these values of the setting that decides it."""
    condition, asked_by = f"channel == '{slug}'", channels.get(slug).asked_by
    if len(ways) == len(_asks_by_way(slug, None)):
        return condition
    return f"{condition} && {[*ways]}.includes({slug}__{asked_by} || '')"


def _asked(slug: str, account: ChannelAccount | None) -> dict[str, str | None]:
    """Return what an account of the channel is asked for, in order; a new one, by all values of what decides it."""
    found: dict[str, str | None] = {}
    for asks in _asks_by_way(slug, account).values():
        found = {**asks, **found}
    generated = channels.get(slug).make_secrets()
    return {name: default for name, default in found.items() if name not in generated}


def _asks_by_way(slug: str, account: ChannelAccount | None) -> dict[str, dict[str, str | None]]:
    """Return what the adapter asks for, by the values of the setting that decides it.

    Empty: the setting's default, or the account's own value.
    """
    adapter = channels.get(slug)
    configs: dict[str, Mapping[str, Any]] = {"": account.config if account else {}}
    if not account and (decides := adapter.config_fields.get(adapter.asked_by)):
        configs |= {way: _config_of(slug, way) for way in decides.choices}
    return {way: adapter.asks(accounts.settings_of(slug, "", config, {})) for way, config in configs.items()}


def _config_of(slug: str, way: str) -> dict[str, Any]:
    return {channels.get(slug).asked_by: way} if way else {}


def _mark(field: Any, default: str | None, *, is_stored: bool) -> None:
    """Mark a required field, and show the default of another in it. Which channel's are filled in is not known yet."""
    if default is None and not is_stored:
        field.label = format_html('{}<span class="k-required" title="required">*</span>', field.label)
    elif default and isinstance(field, forms.ChoiceField):
        choices: Any = field.choices
        field.choices = [("", f"Default ({_label(default)})"), *choices[1:]]
    elif default and isinstance(field, forms.CharField | forms.FloatField):
        field.widget.attrs["placeholder"] = default


def _names_of(slug: str, prefix: str) -> list[str]:
    adapter = channels.get(slug)
    return [f"{prefix}__{name}" for name in (*adapter.secret_fields, *adapter.config_fields)]


def _channels(account: ChannelAccount | None) -> list[tuple[str, str]]:
    """Return prefixes of field names and the channels that they stand for."""
    return [(_OWN, account.channel)] if account else [(slug, slug) for slug in channels.names()]


def _settings_of(channel: str, prefix: str) -> Iterator[tuple[str, str, Setting]]:
    """Yield the name of the field, the name of the setting and its declaration."""
    for name, setting in channels.get(channel).config_fields.items():
        yield f"{prefix}__{name}", name, setting
    for name, setting in SHARED_SETTINGS.items():
        yield f"{_SHARED}__{name}", name, setting


def _setting_field(name: str, setting: Setting) -> forms.Field:
    text = setting.help.replace("true: ", "Yes: ").replace("false: ", "No: ")
    options: dict[str, Any] = {"required": False, "label": _label(name), "help_text": f"{text[:1].upper()}{text[1:]}."}
    match setting.kind:
        case "flag":
            coerce = "true".__eq__
            return forms.TypedChoiceField(
                choices=_FLAGS, coerce=coerce, empty_value=None, widget=UnfoldAdminSelectWidget, **options
            )
        case "number":
            return forms.FloatField(min_value=0, widget=UnfoldAdminDecimalFieldWidget, **options)
        case "choice":
            choices = [("", "Default"), *((choice, _label(choice)) for choice in setting.choices)]
            return forms.ChoiceField(choices=choices, widget=UnfoldAdminSelectWidget, **options)
        case "ids" | "agents":
            options["help_text"] += " Separated by commas."
            return IdsField(**options)
        case "patterns":
            return patterns_field(options["label"], options["help_text"])
        case "picture":
            return PictureField(**options)
        case _:
            return forms.CharField(widget=UnfoldAdminTextInputWidget, **options)


def _secret_field(name: str, help_text: str, is_stored: bool) -> forms.Field:
    kept = " Stored: leave empty to keep it." if is_stored else ""
    return forms.CharField(
        required=False,
        max_length=4000,
        label=_label(name),
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text=f"{help_text[:1].upper()}{help_text[1:]}.{kept}",
    )


def _label(name: str) -> str:
    label = " ".join(_SPELLINGS.get(word, word) for word in name.split("_"))
    return label[:1].upper() + label[1:]


def stored_secrets(account: ChannelAccount) -> tuple[str, ...]:
    """Return the names of the account's secrets, none if they cannot be unsealed."""
    try:
        return accounts.secret_names(account)
    except AppError:
        return ()


def _removable(account: ChannelAccount) -> list[str]:
    required = channels.get(account.channel).required_secrets
    return [name for name in stored_secrets(account) if name not in required]
