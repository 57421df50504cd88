"""Suggests patterns that an approver may allow beyond one call: the narrowest useful ones. Pure."""

import re
from dataclasses import dataclass

from audit_app.kernel.redact import masked_arguments
from tools_app.policy import patterns, targets
from tools_app.policy.patterns import PolicyCall
from tools_app.types import TargetKind

_SPECIAL = re.compile(r"([\\*?,])")
_LONGEST_SHOWN = 300


@dataclass(frozen=True)
class Proposal:
    """Suggested patterns.

    run: for the rest of the run.
    always: for the agent, until revoked.
    """

    run: str
    always: str


def propose(call: PolicyCall) -> Proposal:
    """Return the patterns for this call: its tool with the same host or path, and the same values of `enum` arguments.

    If the tool declares no target, the run pattern is the tool with the hosts of the addresses that it gets, the
    permanent one the exact arguments. If a target cannot be parsed, or an `enum` argument is left open, both are the
    exact arguments: a pattern would match every target or choice. Both name the credentials that the call uses.
    """
    using = f" using {', '.join(call.credentials)}" if call.credentials else ""
    proposal = _propose(call)
    return Proposal(f"{proposal.run}{using}", f"{proposal.always}{using}")


def _propose(call: PolicyCall) -> Proposal:
    reached, chosen = _reached(call), _chosen(call)
    if reached == []:
        addresses = [
            (name, _place(text, TargetKind.URL, call)) for name, text in targets.urls_of(call.spec, call.arguments)
        ]
        rules = [f"{name}={place}" for name, place in addresses if place]
        run = _pattern(call, rules) if len(rules) == len(addresses) else None
        return Proposal(run or _exactly(call), _exactly(call))
    pattern = _pattern(call, [*chosen, *reached]) if reached and chosen is not None else None
    return Proposal(pattern or _exactly(call), pattern or _exactly(call))


def _pattern(call: PolicyCall, rules: list[str]) -> str | None:
    """Return the pattern of the call's tool with these conditions, or None if it is too long."""
    pattern = f"{call.spec.name}({', '.join(rules)})" if rules else call.spec.name
    return pattern if len(pattern) <= patterns.LONGEST else None


def _reached(call: PolicyCall) -> list[str] | None:
    """Return a condition for each target of the call, or None if one cannot be parsed."""
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


def _place(text: str, kind: TargetKind, call: PolicyCall) -> str | None:
    if kind is TargetKind.PATH:
        path = targets.read_path(text, call.workspace, call.follow)
        return None if path is None else _literal(path)
    url = targets.read_url(text)
    return None if url is None else f"{url.scheme}://{_literal(url.authority)}/*"


def _chosen(call: PolicyCall) -> list[str] | None:
    """Return a condition for each `enum` argument, such as an HTTP method, or None if one is left open."""
    properties = call.spec.parameters.get("properties", {})
    names = [name for name, rule in properties.items() if isinstance(rule, dict) and "enum" in rule]
    values = [call.value(name) for name in names]
    if not all(isinstance(value, str) for value in values):
        return None
    return [f"{name}={_literal(value)}" for name, value in zip(names, values, strict=True)]


def _exactly(call: PolicyCall) -> str:
    """Return a pattern of these exact arguments: spelled out if readable, else as their digest."""
    texts = call.arguments.items()
    if call.arguments and all(isinstance(value, str) and value == value.strip() and value for _, value in texts):
        pattern = f"{call.spec.name}({', '.join(f'{name}={_literal(value)}' for name, value in texts)})"
        # A pattern is stored and shown: it must not contain a secret.
        is_shown = pattern.isprintable() and masked_arguments(pattern) == pattern
        if len(pattern) <= _LONGEST_SHOWN and is_shown and _is_complete(pattern, call):
            return pattern
    return f"{call.spec.name}({call.digest})"


def _is_complete(pattern: str, call: PolicyCall) -> bool:
    """Return whether the pattern matches these arguments and no optional argument could be added."""
    properties = call.spec.parameters.get("properties", {})
    return set(call.arguments) >= set(properties) and patterns.parse(pattern).permits(call)


def _literal(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
