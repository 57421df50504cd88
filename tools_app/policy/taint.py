"""Origins of what a run has read, and whether a call may carry it out of the installation. Pure.

An origin is a text `kind:name`, such as `page:example.org`, of content that neither the person nor an operator wrote.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tools_app.policy import patterns, targets
from tools_app.policy.patterns import PolicyCall
from tools_app.policy.rules import AgentPolicy
from tools_app.policy.targets import Url
from tools_app.types import Reads

# Letters that the choice of calls may carry without approval, such as the choice among the links of a page.
MAX_LETTERS = 5
FOLLOWED = "The URL stands in what the run has read."
CHOSEN = "The call sends nothing but the choice of it."
_SHOWN_ORIGINS, _SHOWN_CHARACTERS = 2, 40
_LABELS = {
    "page": "page",
    "file": "file",
    "tool": "tool",
    "mcp": "MCP server",
    "channel": "sender without a user",
    "import": "imported",
    "others": "text of others",
}
_SCHEMES = ("http", "https")
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_URL = re.compile(r"\bhttps?://[^\s<>\"'`|\\^{}\[\]]+", re.IGNORECASE)
_HOST = re.compile(r"(?<![@\w./-])(?:[\w-]{1,63}\.)+[a-z]{2,24}(?![\w@-]|\.\w)", re.IGNORECASE)
# Top-level domains that are also endings of files: `report.md` names a file, not a host.
_FILE_ENDINGS = frozenset({"bz", "cab", "cc", "md", "mk", "ml", "mov", "pl", "ps", "py", "rs", "sh", "so", "zip"})
_TRAILING = ".,;:!?)*_"
_MOST_TRAILING = 8
_LONGEST_URL = 4_096


@dataclass(frozen=True)
class Destination:
    """A place that data goes to.

    name: host and port, or `mcp:SERVER` or `tool:NAME` if there is no URL.
    text: the URL as written, with its scheme.
    """

    name: str
    url: Url | None = None
    text: str = ""


@dataclass(frozen=True)
class Egress:
    """The part of a call that leaves the installation.

    urls: the URLs in the arguments, as written.
    is_bare: nothing leaves but these URLs.
    choices: letters that the choice of this call among others can carry: one for each URL of a bare call; for a call
        without values one, and one for each argument that it gives at its default. 0 if other values leave, or the
        call is not for reading.
    """

    destinations: tuple[Destination, ...]
    urls: tuple[str, ...]
    is_bare: bool
    choices: int = 0


@dataclass(frozen=True)
class Taint:
    """State of a run that has read content from outside.

    named: URLs that the person has named.
    links: URLs of the call that stand literally in what the run has read.
    letters: letters that choices without approval may have carried since the message that the run answers.
    allowed: destinations that an approver has allowed for the run.
    """

    origins: tuple[str, ...]
    named: frozenset[str] = frozenset()
    links: frozenset[str] = frozenset()
    letters: int = 0
    allowed: frozenset[str] = frozenset()


def origins_of(call: PolicyCall) -> tuple[str, ...]:
    """Return the origins of what the call reads from outside, as far as its arguments determine them."""
    spec = call.spec
    if spec.reads is not Reads.OUTSIDE:
        return ()
    if spec.server:
        return (f"mcp:{spec.server}",)
    texts = (*(text for _, text in targets.urls_of(call.spec, call.arguments)), spec.reaches)
    hosts = [url.authority for text in texts if (url := targets.read_url(text))]
    return tuple(f"page:{host}" for host in dict.fromkeys(hosts)) or (f"tool:{spec.name}",)


def find_egress(call: PolicyCall) -> Egress | None:
    """Return what leaves the installation by the call, or None if nothing does."""
    spec = call.spec
    given = [name for name in call.arguments if spec.sends is None or name in spec.sends]
    sent = [call.arguments[name] for name in given if not _is_default(name, call.arguments[name], call)]
    is_read = spec.reads is Reads.OUTSIDE
    if spec.sends == () or not (sent or is_read):
        return None
    urls = tuple(text for _, text in targets.urls_of(call.spec, call.arguments))
    is_bare = bool(sent) and not spec.reaches and all(isinstance(value, str) and value in urls for value in sent)
    reached = [_destination(text) for text in (*urls, spec.reaches) if text]
    if spec.server:
        reached.append(Destination(f"mcp:{spec.server}"))
    places = tuple(dict.fromkeys(reached)) or (Destination(f"tool:{spec.name}"),)
    choices = len(sent) if is_bare else 0 if sent else 1 + len(given)
    return Egress(places, urls, is_bare, choices if is_read else 0)


def sends_values(call: PolicyCall) -> bool:
    """Return whether values leave by the call, not its choice alone."""
    egress = find_egress(call)
    return egress is not None and (egress.is_bare or not egress.choices)


def count_letters(call: PolicyCall) -> int:
    """Return how many letters the choice of this call can carry."""
    egress = find_egress(call)
    return egress.choices if egress else 0


def find_unknown(call: PolicyCall, agent_policy: AgentPolicy, taint: Taint) -> tuple[Destination, ...]:
    """Return the destinations that neither the agent's rules, nor the person, nor an approver has named."""
    egress = find_egress(call)
    if egress is None:
        return ()
    named = taint.named if egress.is_bare else frozenset()
    return tuple(
        place
        for place in egress.destinations
        if place.name not in taint.allowed and place.text not in named and not _is_allowed(place, agent_policy)
    )


def find_free_choice(call: PolicyCall, agent_policy: AgentPolicy, taint: Taint) -> str:
    """Return why the call may be made although it goes to an unknown place, as one of few choices; else empty."""
    egress = find_egress(call)
    if egress is None or not egress.choices or taint.letters + egress.choices > MAX_LETTERS:
        return ""
    unknown = find_unknown(call, agent_policy, taint)
    if not unknown or not egress.is_bare:
        return CHOSEN if unknown else ""
    return FOLLOWED if all(place.text in taint.links for place in unknown) else ""


def is_allowed(egress: Egress, agent_policy: AgentPolicy) -> bool:
    """Return whether the agent's rules, and those that enclose them, name every destination."""
    within = agent_policy.within
    is_named = all(_is_allowed(place, agent_policy) for place in egress.destinations)
    return is_named and (within is None or is_allowed(egress, within))


def binds_destination(text: str, call: PolicyCall) -> bool:
    """Return whether a pattern that permits the call also fixes where its arguments go."""
    pattern = patterns.parse(text)
    if pattern.digest:
        return True
    places = {name for name, _ in targets.urls_of(call.spec, call.arguments)}
    if not places:
        return pattern.tool.is_literal
    bound = {
        rule.argument or patterns.main_argument(call) for rule in pattern.rules if rule.url and rule.url.host.is_literal
    }
    return places <= bound


def reason(origins: Iterable[str], destination: Destination) -> str:
    """Return the sentence for approvers."""
    read, place = described(origins), described_one(destination.name)
    return f"This chat contains {read} from outside. The call would send data to {place}."


def described(origins: Iterable[str]) -> str:
    """Return the origins for people, such as `example.org (page)`; the first ones if there are many."""
    names = [described_one(origin) for origin in origins]
    more = len(names) - _SHOWN_ORIGINS
    shown = ", ".join(names[:_SHOWN_ORIGINS])
    return f"{shown} and {more} more" if more > 0 else shown


def described_one(origin: str) -> str:
    """Return an origin, or the name of a destination, for people, such as `example.org (page)`."""
    kind, _, name = origin.partition(":")
    text = name if kind in _LABELS else origin
    short = text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
    return f"{short} ({_LABELS[kind]})" if kind in _LABELS else short


def named_urls(text: str) -> frozenset[str]:
    """Return the URLs that a person names in a text, as written and in their normal form.

    A plain host such as `example.org` names its front page. No other spelling is named: the author of a page could have
    the model put data into another path or query of the same host, or into the encoding of its characters.
    """
    hosts = (name for name in _HOST.findall(text) if name.rpartition(".")[2].lower() not in _FILE_ENDINGS)
    links = [*links_in(text), *(f"https://{host}/" for host in hosts)]
    urls = [url for link in links if (url := targets.read_url(link))]
    places = [(authority, url.path) for url in urls for authority in (url.authority, _twin(url.authority))]
    return frozenset(links) | {f"{scheme}://{place}{path}" for scheme in _SCHEMES for place, path in places}


def links_in(text: str) -> Iterator[str]:
    """Yield the URLs that stand in a text, also without the punctuation that may follow them."""
    for match in _URL.finditer(text):
        link = match[0]
        if len(link) > _LONGEST_URL:
            continue
        yield link
        for _ in range(_MOST_TRAILING):
            if link[-1] not in _TRAILING:
                break
            link = link[:-1]
            yield link


def _is_default(name: str, value: Any, call: PolicyCall) -> bool:
    rule = call.spec.parameters.get("properties", {}).get(name)
    default = rule.get("default") if isinstance(rule, dict) else None
    return value in _EMPTY or (default is not None and type(value) is type(default) and value == default)


def _destination(text: str) -> Destination:
    url = targets.read_address(text)
    if url is None:
        return Destination(text, None, text)
    return Destination(url.authority, url, text if targets.is_url_like(text) else f"https://{url.authority}{url.path}")


def _is_allowed(place: Destination, agent_policy: AgentPolicy) -> bool:
    if place.url is not None:
        return patterns.find_host(agent_policy.allowed_hosts, place.url) is not None
    server = place.name.removeprefix("mcp:")
    return server != place.name and server in agent_policy.egress_servers


def _twin(host: str) -> str:
    return host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"
