"""Form fields for rules about calls and hosts, one per line, validated when they are saved."""

from collections.abc import Callable
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminTextareaWidget

from tools_app.policy.globs import PatternError
from tools_app.policy.patterns import check_host, check_pattern

PATTERN_HELP = "One a line: `tool`, `tool(glob)` or `tool(argument=glob)`, with the wildcards * and ?."
HOST_HELP = "One a line: `example.com`, `*.example.com` or `example.com:8443`."


class RulesField(forms.CharField):
    """A list of rules, one per line."""

    widget = UnfoldAdminTextareaWidget(attrs={"rows": 3, "spellcheck": "false"})

    def __init__(self, check: Callable[[str], str], **options: Any) -> None:
        self._check = check
        super().__init__(required=False, **options)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(str(rule) for rule in value) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(self.prepare_value(initial), data)

    def clean(self, value: Any) -> list[str]:
        text: str = super().clean(value)
        lines = dict.fromkeys(line.strip() for line in text.splitlines() if line.strip())
        try:
            return [self._check(line) for line in lines]
        except PatternError as error:
            raise forms.ValidationError(str(error)) from None


def patterns_field(label: str, meaning: str) -> RulesField:
    return RulesField(check_pattern, label=label, help_text=f"{meaning} {PATTERN_HELP}")


def hosts_field(label: str, meaning: str) -> RulesField:
    return RulesField(check_host, label=label, help_text=f"{meaning} {HOST_HELP}")
