"""The settings of channel accounts: those that an adapter declares, and the values that it is created from. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sessions_app.platforms import small_pictures
from tools_app.policy.globs import PatternError
from tools_app.policy.patterns import check_pattern


@dataclass(frozen=True)
class Setting:
    """One setting of an account's configuration.

    help: a phrase for operators.
    kind: text | flag | number | ids (a list) | agents (a list of their ids) | patterns (a list, of tool calls) | url |
        choice (one of `choices`) | picture (see `small_pictures`).
    is_address: decides to which server, or how protected, the secrets of the account are sent. A url always does.
    """

    help: str
    kind: str = "text"
    is_required: bool = False
    choices: tuple[str, ...] = ()
    is_address: bool = False

    def parse(self, text: str) -> Any:
        """Return the value that an operator typed. What cannot be read is returned as typed, for `problem`."""
        if self.kind in ("ids", "agents", "patterns"):
            return [part.strip() for part in text.split(",") if part.strip()]
        if self.kind == "flag":
            return {"yes": True, "true": True, "no": False, "false": False}.get(text.lower(), text)
        return float(text) if self.kind == "number" and text.replace(".", "", 1).isdecimal() else text

    def problem(self, value: Any) -> str:
        """Return the problem with a value, as a phrase that follows the setting's name; empty if it is valid."""
        match self.kind:
            case "flag":
                return "" if isinstance(value, bool) else "must be true or false"
            case "number":
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                return "" if is_number and 0 <= value < 10**6 else "must be a number, not below 0"
            case "ids" | "agents":
                is_ids = isinstance(value, list) and all(type(item) in (str, int) for item in value)
                return "" if is_ids else "must be a list of ids"
            case "patterns":
                return _pattern_problem(value)
            case "url":
                is_url = isinstance(value, str) and value.startswith(("https://", "http://"))
                return "" if is_url else "must be an address such as https://example.org"
            case "picture":
                return "" if small_pictures.read_picture(value) else small_pictures.PROBLEM
            case "choice":
                return "" if value in self.choices else f"must be {' or '.join(self.choices)}"
            case _:
                return "" if isinstance(value, str) else "must be text"


def _pattern_problem(value: Any) -> str:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return "must be a list of patterns"
    try:
        for item in value:
            check_pattern(item)
    except PatternError as error:  # an invalid pattern would refuse every call
        return f"must be a list of patterns: {error}"
    return ""


# The settings of every account, of whatever channel.
SHARED_SETTINGS = {
    "groups": Setting(
        "messages of groups that are answered: mentions of the bot; mentions and replies; these and what follows in a "
        "thread in which it has answered; all; or none. Default: thread on Slack, Discord and Teams, else reply",
        "choice",
        choices=("mention", "reply", "thread", "all", "off"),
    ),
    "group_tokens": Setting(
        "tokens of a group's last messages that are not for the bot, which the next answer takes into account; default "
        "2000; 0: none are stored",
        "number",
    ),
    "group_hours": Setting("hours for which those messages are stored; default 24", "number"),
    "agents": Setting("ids of agents that senders may choose by /agent", "agents"),
    "approvers": Setting("ids of senders who may decide requests for approval from their chats", "ids"),
    "transcription": Setting(
        "voice notes are transcribed: off (default); yes, by the agent's model provider; or the name of another one"
    ),
    "transcription_model": Setting("model that transcribes; default: that of the provider, else whisper-1"),
    "readonly": Setting("true: its sessions use read-only tools, whatever the agent may use", "flag"),
    "denied_tools": Setting("patterns of tool calls that its sessions never make", "patterns"),
}


@dataclass(frozen=True)
class AccountSettings:
    """The settings that an adapter is created from.

    config: by the names of `config_fields`.
    secrets: in clear text, by the names of `secret_fields`.
    public_url: the address of the account's webhook; only its path if the installation has no public address.
    reachable: `host:port` pairs that callbacks may reach although they are not public.
    """

    account_id: str
    config: Mapping[str, Any]
    secrets: Mapping[str, str] = field(repr=False)
    public_url: str = ""
    reachable: frozenset[str] = frozenset()


def find_problems(
    account: AccountSettings,
    needed: Sequence[str],
    config_fields: Mapping[str, Setting],
    secret_fields: Collection[str],
) -> Iterator[str]:
    """Yield what is missing, unknown or invalid, a phrase each. needed: names of settings and secrets."""
    known = {**SHARED_SETTINGS, **config_fields}
    missing = [name for name in needed if not (account.config.get(name) or account.secrets.get(name))]
    for name in missing:
        yield f"{name} is missing"
    for name in (*sorted({*account.config} - {*known}), *sorted({*account.secrets} - {*secret_fields})):
        yield f"{name} is not known"
    for name in sorted({*account.config} & {*known} - {*missing}):
        if problem := known[name].problem(account.config[name]):
            yield f"{name} {problem}"
