"""Templates of HTTP requests with `{{input.x}}` and `{{credential:NAME}}`, escaped as each place requires. Pure.

Input from a model can only become a value in a path, a query, a header or a body: never a host, a name, or several
values.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

_INPUT = r"input\.([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)"
_PLACEHOLDER = re.compile(rf"\{{\{{\s*(?:{_INPUT}|credential:\s*([A-Za-z0-9_.-]+))\s*\}}\}}")
_URL = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(?=[/?]|$)")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,80}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]*")
# Headers that control the connection, or the parsing of the request.
_OWN_HEADERS = """
    host content-length transfer-encoding connection te trailer upgrade accept-encoding content-type expect
    proxy-authorization
"""
_BODILESS = frozenset({"GET", "HEAD"})

Scalar = str | int | float | bool


class BadTemplate(ValueError):
    """An invalid template. The message says where and why."""


class UnfitValue(ValueError):
    """A value that is not allowed in its place. The message is written for the model."""


@dataclass(frozen=True)
class HttpTemplate:
    """A template of a request.

    json_body: a JSON value with templates in its texts.
    form: fields; or neither.
    """

    method: str
    url: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json_body: Any = None
    form: Mapping[str, str] | None = None

    @property
    def origin(self) -> str:
        """Return scheme, host and port, as written in the template."""
        found = _URL.match(self.url)
        return found[0] if found else ""

    @property
    def credentials(self) -> tuple[str, ...]:
        """Return the names of the credentials that the template uses, each once."""
        texts = [*self.query.values(), *self.headers.values(), *(self.form or {}).values(), *_texts(self.json_body)]
        return tuple(dict.fromkeys(name for text in texts for _, name in _PLACEHOLDER.findall(text) if name))


@dataclass(frozen=True)
class RenderedRequest:
    """A request ready to be sent; may contain secrets. body: None for none."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None


def check_template(template: HttpTemplate) -> None:
    """Raise BadTemplate for a template whose meaning an input could change."""
    if not _URL.match(template.url) or not urlsplit(template.url).hostname:
        raise BadTemplate("url: must begin with http:// or https:// and a host without placeholders")
    if "#" in template.url or "\\" in template.url or not template.url.isprintable() or " " in template.url:
        raise BadTemplate("url: must not have a fragment, a space or a backslash")
    if any(name for _, name in _PLACEHOLDER.findall(template.url)):
        raise BadTemplate("url: must not have a credential; put it into a header, the query or the body")
    if template.method in _BODILESS and (template.json_body is not None or template.form is not None):
        raise BadTemplate(f"a {template.method} request must not have a body")
    if template.json_body is not None and template.form is not None:
        raise BadTemplate("a request can have a json body or a form, not both")
    for name in template.headers:
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS.split():
            raise BadTemplate(f"headers: {name!r} cannot be set")
    _check_braces(template)


def _check_braces(template: HttpTemplate) -> None:
    """Refuse braces that are no placeholder."""
    named = [("url", template.url), *(("query", text) for text in template.query.values())]
    named += [("headers", text) for text in template.headers.values()]
    named += [("form", text) for text in (template.form or {}).values()]
    named += [("json", text) for text in _texts(template.json_body)]
    for place, text in named:
        if "{{" in _PLACEHOLDER.sub("", text) or "}}" in _PLACEHOLDER.sub("", text):
            raise BadTemplate(f"{place}: only {{{{input.name}}}} and {{{{credential:NAME}}}} are allowed in braces")


def render(template: HttpTemplate, values: Mapping[str, Any], credentials: Mapping[str, str]) -> RenderedRequest:
    """Return the request for these inputs. Raises UnfitValue.

    A query parameter, form field or member of a JSON object whose only value is missing is left out; elsewhere a
    missing value is empty.
    """
    fill = _Filler(values, credentials)
    url = _fill_url(template.url, fill)
    query = {name: text for name, source in template.query.items() if (text := fill.text(source)) is not None}
    if query:
        url += ("&" if "?" in url else "?") + urlencode(query)
    headers = _fill_headers(template.headers, fill)
    body, content_type = _fill_body(template, fill)
    if content_type:
        headers["Content-Type"] = content_type
    return RenderedRequest(template.method, url, headers, body)


class _Filler:
    """Fills in placeholders. A text that consists of one placeholder without a value counts as missing."""

    def __init__(self, values: Mapping[str, Any], credentials: Mapping[str, str]) -> None:
        self._values = values
        self._credentials = credentials

    def text(self, source: str, escape: Callable[[str], str] = str) -> str | None:
        whole = _PLACEHOLDER.fullmatch(source)
        if whole and whole[1] and self._look_up(whole[1]) is None:
            return None
        return _PLACEHOLDER.sub(lambda found: escape(self._text_of(found)), source)

    def value(self, source: str) -> Any:
        """Return the filled-in text; a text that consists of one input placeholder keeps the input's type."""
        whole = _PLACEHOLDER.fullmatch(source)
        return self._look_up(whole[1]) if whole and whole[1] else self.text(source)

    def _text_of(self, found: re.Match[str]) -> str:
        if found[2]:
            return self._credentials[found[2]]
        value = self._look_up(found[1])
        if value is None:
            return ""
        if not isinstance(value, Scalar):
            raise UnfitValue(f"{found[1]}: must be a string, a number or a boolean.")
        return ("true" if value else "false") if isinstance(value, bool) else str(value)

    def _look_up(self, path: str) -> Any:
        value: Any = self._values
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value


def _fill_url(source: str, fill: _Filler) -> str:
    """Fill in the URL: each value becomes part of one path segment or one query value, whatever its characters."""
    path, mark, query = source.partition("?")
    at = source.index("/", source.index("//") + 2) if "/" in path[8:] else len(path)
    segments = [_fill_segment(segment, fill) for segment in path[at:].split("/")]
    filled = fill.text(query, _quoted) or "" if mark else ""
    return f"{path[:at]}{'/'.join(segments)}{mark}{filled}"


def _fill_segment(source: str, fill: _Filler) -> str:
    if "{{" not in source:
        return source
    text = fill.text(source, _quoted)
    if not text or text in (".", ".."):
        name = _PLACEHOLDER.findall(source)[0][0]
        raise UnfitValue(f"{name}: must not be empty, `.` or `..`.")
    return text


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")


def _fill_headers(sources: Mapping[str, str], fill: _Filler) -> dict[str, str]:
    headers = {}
    for name, source in sources.items():
        text = fill.text(source)
        if text is None:
            continue
        if not _HEADER_VALUE.fullmatch(text):
            raise UnfitValue(f"The header {name} must be one line of printable ASCII characters.")
        headers[name] = text.strip()
    return headers


def _fill_body(template: HttpTemplate, fill: _Filler) -> tuple[bytes | None, str]:
    if template.form is not None:
        fields = {name: text for name, source in template.form.items() if (text := fill.text(source)) is not None}
        return urlencode(fields).encode(), "application/x-www-form-urlencoded"
    if template.json_body is not None:
        value = _fill_json(template.json_body, fill)
        return json.dumps(value, ensure_ascii=False).encode(errors="replace"), "application/json"
    return None, ""


def _fill_json(source: Any, fill: _Filler) -> Any:
    if isinstance(source, str):
        return fill.value(source)
    if isinstance(source, list):
        return [_fill_json(item, fill) for item in source]
    if isinstance(source, dict):
        filled = {name: _fill_json(item, fill) for name, item in source.items()}
        return {name: item for name, item in filled.items() if item is not None or source[name] is None}
    return source


def _texts(value: Any) -> list[str]:
    """Return every text in a JSON value, except the names of members."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    return []
