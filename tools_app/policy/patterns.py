"""Patterns of tool calls, the syntax of rules: `tool`, `tool(glob)`, `tool(argument=glob, …) using credential`. Pure.

A denying rule matches broadly: it applies if any spelling of the call matches. A permitting rule matches strictly:
every spelling has to match, and the pattern has to name every credential that the call uses. `globs` defines the
wildcards.
"""

import hashlib
import json
import posixpath
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tools_app.policy import targets
from tools_app.policy.globs import Glob, PatternError, fold
from tools_app.policy.targets import Follow, Url
from tools_app.types import TargetKind, ToolSpec

LONGEST = 1000
DIGEST = "#"
_TOOL = re.compile(r"[\w.:*?-]{1,120}", re.ASCII)
_NAMED = re.compile(r"\s*([A-Za-z_][\w.-]*)=")
_DIGEST_TEXT = re.compile(r"#[0-9a-f]{32}")
# The credentials behind a pattern: names, with or without their owner as `CredentialUse.labels` has it.
_LABEL = r"(?:(?:user:[0-9]{1,20}|installation)/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,119}"
_USING = re.compile(rf"(.*?)\s+using\s+({_LABEL}(?:\s*,\s*{_LABEL}){{0,9}})\s*", re.DOTALL)
_CLIMBS = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)")


@dataclass(frozen=True)
class PolicyCall:
    """A call as the rules match it.

    workspace: folder in which `follow` resolves its paths.
    credentials: labels of those that it uses, see `CredentialUse`.
    """

    spec: ToolSpec
    arguments: dict[str, Any]
    workspace: str = ""
    follow: Follow = str
    credentials: tuple[str, ...] = ()

    @property
    def canonical(self) -> str:
        """Return the arguments as canonical JSON."""
        return json.dumps(self.arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @property
    def digest(self) -> str:
        return f"{DIGEST}{hashlib.sha256(self.canonical.encode()).hexdigest()[:32]}"

    def value(self, argument: str) -> Any:
        """Return the argument, or the default in the tool's schema, or None."""
        if argument in self.arguments:
            return self.arguments[argument]
        rule = self.spec.parameters.get("properties", {}).get(argument)
        return rule.get("default") if isinstance(rule, dict) else None


@dataclass(frozen=True)
class _UrlGlob:
    """A glob of URLs, matched part by part: a wildcard in the host never extends into the path."""

    scheme: Glob
    host: Glob
    port: str
    path: Glob | None

    def permits(self, url: Url) -> bool:
        path = self.path.matches(url.path) if self.path else url.path == "/"
        same_port = self.port in ("*", "" if url.port is None else str(url.port))
        return path and same_port and self.scheme.matches(url.scheme) and self.host.matches(url.host)

    def refuses(self, url: Url) -> bool:
        path = self.path is None or self.path.finds(url.path)
        same_port = self.port in ("", "*", str(url.port))
        return path and same_port and self.scheme.finds(url.scheme) and self.host.finds(url.host)


@dataclass(frozen=True)
class _ArgumentRule:
    """A condition on one argument. argument: empty for the tool's main one."""

    argument: str
    glob: Glob
    url: _UrlGlob | None = None

    def permits(self, call: PolicyCall) -> bool:
        name = self.argument or main_argument(call)
        value = call.value(name) if name else call.canonical
        kind = targets.targets_of(call.spec).get(name)
        found = list(_texts(value))
        return bool(found) and all(self._permits_text(text, kind, call) for text in found)

    def refuses(self, call: PolicyCall) -> bool:
        name = self.argument or main_argument(call)
        value = call.value(name) if name else None
        kind = targets.targets_of(call.spec).get(name)
        if any(self._refuses_text(text, kind, call) for text in _texts(value)):
            return True
        return not self.argument and self.glob.finds(fold(call.canonical))

    def _permits_text(self, text: str, kind: TargetKind | None, call: PolicyCall) -> bool:
        if kind is TargetKind.PATH:
            path = targets.read_path(text, call.workspace, call.follow)
            if path is not None and self.glob.pieces[0].startswith("/"):
                path = f"{targets.root_of(call.workspace, call.follow)}/{path}"
            return path is not None and self.glob.matches(path)
        if kind is TargetKind.URL or (self.url and targets.is_url_like(text)):
            url = targets.read_url(text)
            if url is None:
                return False
            return self.url.permits(url) if self.url else self.glob.matches(text)
        return self.glob.matches(text) and (self.glob.is_literal or not _CLIMBS.search(targets.decoded(text)))

    def _refuses_text(self, text: str, kind: TargetKind | None, call: PolicyCall) -> bool:
        if any(self.glob.finds(spelling) for spelling in _spellings(text, kind, call)):
            return True
        if kind is not TargetKind.URL and not targets.is_url_like(text):
            return False
        return any(self._refuses_url(url) for url in targets.suspect_urls(text))

    def _refuses_url(self, url: Url) -> bool:
        as_text = f"{url.scheme}://{url.authority}{url.path}"
        return self.glob.finds(fold(as_text)) or (self.url is not None and self.url.refuses(url))


@dataclass(frozen=True)
class Pattern:
    """A parsed pattern.

    tool: names of the tools it applies to.
    rules: conditions that all have to hold.
    digest: digest of the exact arguments, instead of rules.
    credentials: names or labels of the credentials that the call may use.
    """

    tool: Glob
    rules: tuple[_ArgumentRule, ...] = ()
    digest: str = ""
    credentials: tuple[str, ...] = ()

    @property
    def is_about_arguments(self) -> bool:
        return bool(self.rules or self.digest or self.credentials)

    def permits(self, call: PolicyCall) -> bool:
        """Return whether every spelling of the call matches, and the pattern names every credential that it uses."""
        if not self.tool.matches(call.spec.name) or (self.digest and self.digest != call.digest):
            return False
        if not all(map(self._names, call.credentials)):
            return False
        return all(rule.permits(call) for rule in self.rules)

    def refuses(self, call: PolicyCall) -> bool:
        """Return whether any spelling of the call matches."""
        names = (call.spec.name, call.spec.stands_for or call.spec.name)
        if not any(self.tool.finds(fold(name)) for name in names) or (self.digest and self.digest != call.digest):
            return False
        if self.credentials and not any(map(self._names, call.credentials)):
            return False
        return all(rule.refuses(call) for rule in self.rules)

    def _names(self, label: str) -> bool:
        return label in self.credentials or label.rpartition("/")[2] in self.credentials


@lru_cache(maxsize=4096)
def parse(text: str) -> Pattern:
    """Return the parsed pattern. Raises PatternError."""
    if using := _USING.fullmatch(text[: 2 * LONGEST]):
        labels = tuple(label.strip() for label in using[2].split(","))
        return replace(parse(using[1]), credentials=labels)
    if len(text) > LONGEST:
        raise PatternError(f"A pattern may have at most {LONGEST} characters.")
    name, bracket, inner = text.strip().partition("(")
    if not _TOOL.fullmatch(name):
        raise PatternError(
            f"{text[:100]!r} is not a pattern. Write `tool` or `tool(argument glob)`; a tool name has letters, digits, "
            "`_`, `-`, `.`, `:` and the wildcards `*` and `?`."
        )
    if not bracket:
        return Pattern(Glob.parse(name))
    if not inner.endswith(")") or not inner[:-1].strip():
        raise PatternError(
            f"{text[:100]!r} is not a pattern: the brackets must not be empty, and must be closed by `)`."
        )
    inner = inner[:-1].strip()
    if inner.startswith(DIGEST):
        if not _DIGEST_TEXT.fullmatch(inner):
            raise PatternError(f"{text[:100]!r}: `#` must be followed by 32 hex digits. Escape a literal one as `\\#`.")
        return Pattern(Glob.parse(name), digest=inner)
    return Pattern(Glob.parse(name), tuple(_argument_rule(part) for part in _split(inner)))


def check_pattern(text: str) -> str:
    """Return the pattern if it is valid. Raises PatternError."""
    parse(text)
    return text


def find_host(rules: Iterable[str], url: Url) -> str | None:
    """Return the first rule about hosts that the URL's host matches, or None."""
    spellings = (url.host, url.authority, f"{url.host}:{url.port or targets.DEFAULT_PORTS.get(url.scheme)}")
    return next((rule for rule in rules if any(map(Glob.parse(rule.lower()).matches, spellings))), None)


def find_refusing(texts: Iterable[str], call: PolicyCall) -> str | None:
    """Return the first pattern that any spelling of the call matches, or None."""
    return next((text for text in texts if parse(text).refuses(call)), None)


def find_permitting(texts: Iterable[str], call: PolicyCall) -> str | None:
    """Return the first pattern that every spelling of the call and all its credentials match, or None."""
    return next((text for text in texts if parse(text).permits(call)), None)


def main_argument(call: PolicyCall) -> str:
    """Return the argument that a bare glob applies to: the only required text, else the only text, else empty."""
    properties = call.spec.parameters.get("properties", {})
    texts = [name for name, rule in properties.items() if isinstance(rule, dict) and rule.get("type") == "string"]
    required = [name for name in call.spec.parameters.get("required", ()) if name in texts]
    name = required[0] if len(required) == 1 else texts[0] if len(texts) == 1 else ""
    return name if name and call.value(name) is not None else ""


def _argument_rule(part: str) -> _ArgumentRule:
    named = _NAMED.match(part)
    text = part[named.end() :].strip() if named else part
    return _ArgumentRule(named[1] if named else "", Glob.parse(text), _url_glob(text))


def _split(inner: str) -> list[str]:
    """Return the conditions between the commas. A comma that no `name=` follows is part of the glob."""
    if not _NAMED.match(inner):
        return [inner]
    parts, begin, at = [], 0, 0
    while at < len(inner):
        if inner[at] == "," and _NAMED.match(inner, at + 1):
            parts.append(inner[begin:at])
            begin = at + 1
        at += 2 if inner[at] == "\\" else 1
    return [*parts, inner[begin:]]


def _url_glob(text: str) -> _UrlGlob | None:
    scheme, found, rest = text.partition("://")
    if not found:
        return None
    authority, slash, path = rest.partition("/")
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        host, port = authority, ""
    if not re.search(r"[*?\\]", host):
        url = targets.read_url(f"{scheme.lower()}://{host}{':' + port if port else ''}/")
        if url is not None:
            host, port = url.host, "" if url.port is None else str(url.port)
    return _UrlGlob(
        Glob.parse(scheme.lower()), Glob.parse(host.lower()), port, Glob.parse(f"/{path}") if slash else None
    )


def _texts(value: Any) -> Iterable[str]:
    """Yield the texts that a condition applies to: the value or the items of a list, other types as JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif value is not None:
        yield json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _spellings(text: str, kind: TargetKind | None, call: PolicyCall) -> Iterable[str]:
    """Yield the folded spellings that a lenient parser could read from the text."""
    yield fold(text)
    plain = targets.decoded(unicodedata.normalize("NFKC", text)).replace("\\", "/")
    if plain != text:
        yield fold(plain)
    if "/" in plain or "." in plain:
        yield fold(posixpath.normpath(plain))
    if kind is TargetKind.PATH:
        path = targets.read_path(text, call.workspace, call.follow)
        if path is not None:
            yield fold(path)
