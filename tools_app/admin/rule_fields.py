"""Form fields for lists of texts, one per line. The model validates them."""

from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminTextareaWidget

PATTERN_HELP = "One a line: `tool`, `tool(glob)` or `tool(argument=glob)`, with the wildcards * and ?."
HOST_HELP = "One a line: `example.com`, `*.example.com` or `example.com:8443`."


class LinesField(forms.CharField):
    """A list of texts, one per line."""

    widget = UnfoldAdminTextareaWidget(attrs={"rows": 3, "spellcheck": "false"})

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, **options)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, value)) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(self.prepare_value(initial), data)

    def clean(self, value: Any) -> list[str]:
        text: str = super().clean(value)
        return [line.strip() for line in text.splitlines() if line.strip()]


def patterns_field(label: str, meaning: str) -> LinesField:
    return LinesField(label=label, help_text=f"{meaning} {PATTERN_HELP}")


def hosts_field(label: str, meaning: str) -> LinesField:
    return LinesField(label=label, help_text=f"{meaning} {HOST_HELP}")
