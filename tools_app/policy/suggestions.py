"""What a person is offered to allow beyond one call: the narrowest patterns that are still of use. Pure."""

import re
from dataclasses import dataclass

from tools_app.policy import patterns, targets
from tools_app.policy.patterns import Call
from tools_app.types import Target

_SPECIAL = re.compile(r"([\\*?,])")
_LONGEST_SHOWN = 300


@dataclass(frozen=True)
class Proposal:
    """run: for the rest of the run; always: for the agent, until revoked."""

    run: str
    always: str


def propose(call: Call) -> Proposal:
    """The patterns for this call: its tool on the same host, or on the same path, with the same choice of what to do.

    A call that reaches nowhere in particular is allowed for the run as the tool, and for ever with these very
    arguments only. One whose place cannot be told plainly, or that leaves open what it chooses, is allowed for the run
    in no other way either: a pattern would hold for every place, or every choice.
    """
    reached, chosen = _reached(call), _chosen(call)
    if reached == []:
        return Proposal(call.spec.name, _exactly(call))
    if reached and chosen is not None:
        pattern = f"{call.spec.name}({', '.join([*chosen, *reached])})"
        if len(pattern) <= patterns.LONGEST:
            return Proposal(pattern, pattern)
    return Proposal(_exactly(call), _exactly(call))


def _reached(call: Call) -> list[str] | None:
    """Where it reaches, a rule each; None when one of the places cannot be told plainly."""
    rules = []
    for name, kind in targets.targets_of(call.spec).items():
        value = call.value(name)
        if value is None:
            continue
        rule = _place(value, kind, call) if isinstance(value, str) else None
        if rule is None:
            return None
        rules.append(f"{name}={rule}")
    return rules


def _place(text: str, kind: Target, call: Call) -> str | None:
    if kind is Target.PATH:
        path = targets.read_path(text, call.workspace, call.follow)
        return None if path is None else _literal(path)
    url = targets.read_url(text)
    return None if url is None else f"{url.scheme}://{_literal(url.authority)}/*"


def _chosen(call: Call) -> list[str] | None:
    """The arguments that choose among few things to do, such as an HTTP method; None when one of them is left open."""
    properties = call.spec.parameters.get("properties", {})
    names = [name for name, rule in properties.items() if isinstance(rule, dict) and "enum" in rule]
    values = [call.value(name) for name in names]
    if not all(isinstance(value, str) for value in values):
        return None
    return [f"{name}={_literal(value)}" for name, value in zip(names, values, strict=True)]


def _exactly(call: Call) -> str:
    """These very arguments: spelled out where a person can read them, else as their digest."""
    texts = call.arguments.items()
    if call.arguments and all(isinstance(value, str) and value == value.strip() and value for _, value in texts):
        pattern = f"{call.spec.name}({', '.join(f'{name}={_literal(value)}' for name, value in texts)})"
        if len(pattern) <= _LONGEST_SHOWN and pattern.isprintable() and _says_all(pattern, call):
            return pattern
    return f"{call.spec.name}({call.digest})"


def _says_all(pattern: str, call: Call) -> bool:
    """Whether the pattern holds for these arguments and no optional one is left open that could be added later."""
    properties = call.spec.parameters.get("properties", {})
    return set(call.arguments) >= set(properties) and patterns.parse(pattern).permits(call)


def _literal(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
