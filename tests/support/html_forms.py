"""Forms of pages, as a browser would send them."""

from typing import Any

from bs4 import BeautifulSoup, Tag


def fields_of(page: str, selector: str) -> dict[str, list[str]]:
    """Return what a browser sends for an unchanged form: values by field, without buttons and files."""
    form = BeautifulSoup(page, "html.parser").select_one(selector)
    assert form is not None, f"no form {selector}"
    sent: dict[str, list[str]] = {}
    for field in form.select("input[name], select[name], textarea[name]"):
        if not field.has_attr("disabled") and not field.find_parent("template"):
            values = _values(field)
            if values:
                sent.setdefault(str(field["name"]), []).extend(values)
    return sent


def _values(field: Tag) -> list[str]:
    if field.name == "select":
        return _chosen(field)
    if field.name == "textarea":
        return [field.get_text().removeprefix("\n")]
    kind = field.get("type", "text")
    if kind in ("submit", "button", "file", "image", "reset"):
        return []
    if kind in ("checkbox", "radio"):
        return [str(field.get("value", "on"))] if field.has_attr("checked") else []
    return [str(field.get("value", ""))]


def _chosen(field: Any) -> list[str]:
    options = field.select("option")
    chosen = [option for option in options if option.has_attr("selected")]
    if not chosen and not field.has_attr("multiple"):
        chosen = options[:1]
    return [str(option.get("value", option.get_text())) for option in chosen]
