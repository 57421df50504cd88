"""Text of requests for approval in chats: the prompt, the buttons, the commands, the outcome.

Untrusted text is shown with every invisible character escaped, and text that does not fit is counted, so that nobody
approves what they cannot see.
"""

import base64
import binascii
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from audit_app.kernel.redact import masked, masked_for_approver
from audit_app.kernel.safe_text import clipped, summary, visible
from sessions_app.platforms.messages import Button
from tools_app.executions.changes import diff
from tools_app.policy import seen_values
from tools_app.types import ApprovalStatus, ApprovalView, Change, Decision
from tools_app.types.approvals import outcome_of

ONE_OF_TWO = "Allowed by 1 of 2 people. Another person has to allow it, too."
_LABELS = {
    Decision.ALLOW_ONCE: ("Allow once", "success"),
    Decision.ALLOW_RUN: ("Allow for this run", ""),
    Decision.ALLOW_ALWAYS: ("Always allow", ""),
    Decision.DENY: ("Deny", "danger"),
}
_LETTERS = {"o": Decision.ALLOW_ONCE, "r": Decision.ALLOW_RUN, "a": Decision.ALLOW_ALWAYS, "d": Decision.DENY}
_APPROVE_OPTIONS = {
    "": Decision.ALLOW_ONCE,
    "once": Decision.ALLOW_ONCE,
    "run": Decision.ALLOW_RUN,
    "always": Decision.ALLOW_ALWAYS,
}
_ACTION = re.compile(r"apr:(?P<id>[A-Za-z0-9_-]{22}):(?P<letter>[orad])", re.ASCII)
# Characters that some keyboards and platforms insert between letters.
_INVISIBLE = re.compile("[\u200b-\u200f\u2060-\u2069\ufeff]")
_DIGEST = re.compile(r"#[0-9a-f]+\)", re.ASCII)
_SHORT = 8
_DIFF_SIGNS = {"added": "+ ", "removed": "- ", "same": "  ", "skipped": "  …"}
_LONGEST_PATTERN, _LONGEST_BRIEF, _LONGEST_NAME = 300, 200, 60
_MOST_PLACES, _LEAST_SHOWN, _LEAST_ROOM, _NOTE = 3, 100, 200, 35


def outcome(approval: ApprovalView, name: str) -> str:
    """Return the outcome of a request in one line. name: of the actor who decided, or of both."""
    if approval.status is ApprovalStatus.PENDING and approval.first_allowed_by:
        return ONE_OF_TWO
    return outcome_of(approval.status, approval.decision, visible(name))


def narrowed(approval: ApprovalView, allowed_decisions: Collection[Decision]) -> ApprovalView:
    """Return the request with its choices narrowed to the allowed decisions."""
    return replace(approval, choices=tuple(choice for choice in approval.choices if choice in allowed_decisions))


def run_scope(pattern: str) -> str:
    """Return a description of what a permission for the run covers."""
    return f"{scope(pattern)}; {seen_values.LIMIT}"


def scope(pattern: str) -> str:
    """Return a description of what a pattern allows, or the pattern itself if there is no plain form."""
    tool, _, rest = pattern.partition("(")
    if not rest:
        return f"every call of {visible(tool)}"
    if _DIGEST.fullmatch(rest):
        return f"{visible(tool)} with exactly these arguments"
    return clipped(visible(masked(pattern)), _LONGEST_PATTERN)


# Buttons: an id of at most 64 bytes names the request and the decision.


def action_id(approval_id: UUID, decision: Decision) -> str:
    """Return the id of the button for that decision on that request."""
    compact = base64.urlsafe_b64encode(approval_id.bytes).rstrip(b"=").decode()
    letter = next(letter for letter, meant in _LETTERS.items() if meant is decision)
    return f"apr:{compact}:{letter}"


def is_ours(action: str) -> bool:
    """Return whether a button belongs to an approval, valid or not."""
    return action.startswith("apr:")


def read_action(action: str) -> tuple[UUID, Decision] | None:
    """Return the request and the decision of a button, None if the id is invalid."""
    found = _ACTION.fullmatch(action)
    if found is None:
        return None
    try:
        raw = base64.urlsafe_b64decode(found["id"] + "==")
    except binascii.Error:
        return None
    return UUID(bytes=raw), _LETTERS[found["letter"]]


def buttons(approval: ApprovalView, most: int) -> tuple[Button, ...]:
    """Return a button for each choice; only "allow once" and "deny" if more than `most` would be needed."""
    offered = [decision for decision in _LABELS if decision in approval.choices]
    if len(offered) > most:
        offered = [decision for decision in offered if decision in (Decision.ALLOW_ONCE, Decision.DENY)]
    labels = [(decision, *_LABELS[decision]) for decision in offered]
    return tuple(Button(label, action_id(approval.id, decision), style) for decision, label, style in labels)


# Commands, for channels without buttons.


def short_id(approval_id: UUID) -> str:
    """Return the end of an id, enough to distinguish the requests in a chat. Its beginning is the time."""
    return approval_id.hex[-_SHORT:]


def find_named(name: str, approvals: Iterable[ApprovalView]) -> ApprovalView | None:
    """Return the request that a command names by the end of its id; without a name, the only request."""
    found = list(approvals)
    if name:
        wanted = name.lower().replace("-", "")
        found = [approval for approval in found if len(wanted) >= 4 and approval.id.hex.endswith(wanted)]
    return found[0] if len(found) == 1 else None


def read_command(text: str) -> tuple[str, Decision, str] | None:
    """Parse `/approve [id] [run|always]` or `/deny [id] [note]` into id, decision and note; None if invalid."""
    command, *arguments = _INVISIBLE.sub("", text).split()
    has_id = bool(arguments) and bool(re.fullmatch(r"[0-9a-fA-F-]{4,36}", arguments[0]))
    name, rest = (arguments[0], arguments[1:]) if has_id else ("", arguments)
    if command == "/deny":
        return name, Decision.DENY, " ".join(rest)
    decision = _APPROVE_OPTIONS.get(" ".join(rest).lower())
    return (name, decision, "") if decision is not None else None


# Texts, as Markdown.


def prompt(
    approval: ApprovalView, change: Change | None, *, agent_name: str, may_decide: bool, has_buttons: bool, room: int
) -> str:
    """Return the prompt.

    may_decide: a reader of the chat may.
    room: characters for the arguments or the diff.
    """
    lines = [f"**{visible(agent_name)}** wants to use `{_code(approval.tool)}` ({approval.risk} risk)."]
    lines += [f"Reason: {_plain(approval.reason)}"] if approval.reason else []
    lines += [f"Goes to: {_places(approval.places)}"] if approval.places else []
    room = max(room - sum(map(len, approval.places[:_MOST_PLACES])), _LEAST_ROOM)
    body = _diff_block(change, room // 3) if change else ""
    lines += [_arguments_block(approval, room - len(body)), *([body] if body else [])]
    if not may_decide:
        lines.append("We are checking this and will answer here.")
        return "\n\n".join(lines)
    if Decision.ALLOW_RUN in approval.choices and approval.run_pattern:
        lines.append(f"“For this run” means: `{_code(scope(approval.run_pattern))}`; {seen_values.LIMIT}.")
    if Decision.ALLOW_ALWAYS in approval.choices and approval.pattern:
        lines.append(f"“Always” means for this agent: `{_code(scope(approval.pattern))}`")
    if not has_buttons:
        lines.append(_instructions(approval))
    return "\n\n".join(lines)


def answered(approval: ApprovalView, name: str) -> str:
    """Return the text that replaces the prompt once the request is decided."""
    about = summary(masked_for_approver(approval.arguments), _LONGEST_BRIEF)
    lines = [f"`{_code(approval.tool)}` {_plain(about)}", f"**{_plain(outcome(approval, name))}.**"]
    return "\n\n".join([*lines, _plain(masked(approval.note))] if approval.note else lines)


def _instructions(approval: ApprovalView) -> str:
    name = short_id(approval.id)
    more = [word for word in ("run", "always") if _APPROVE_OPTIONS[word] in approval.choices]
    also = ", ".join(f"`/approve {name} {word}`" for word in more)
    return f"To decide, write `/approve {name}`{f' ({also})' if also else ''} or `/deny {name} why not`."


def _places(places: Sequence[str]) -> str:
    more = f" and {len(places) - _MOST_PLACES:,} more places" if len(places) > _MOST_PLACES else ""
    return ", ".join(f"`{_code(place)}`" for place in places[:_MOST_PLACES]) + more


def _arguments_block(approval: ApprovalView, room: int) -> str:
    """Return all arguments: those that say what the call reaches are cut last, and every cut is said."""
    shown = masked_for_approver(approval.arguments)
    first = {name: value for name, value in shown.items() if name in approval.targets}
    lines = list(_fitted(first, room))
    rest = {name: value for name, value in shown.items() if name not in first}
    lines += _fitted(rest, max(room - sum(map(len, lines)), 0))
    return _block("\n".join(lines) or "{}", "json")


def _fitted(arguments: dict[str, object], room: int) -> Iterator[str]:
    """Yield a line for each argument, the longest ones cut, and one that counts those without any room."""
    lines = {
        name: visible(json.dumps({name: value}, ensure_ascii=False, indent=1)) for name, value in arguments.items()
    }
    lines = {name: line.removeprefix("{\n ").removesuffix("\n}") for name, line in lines.items()}
    shown = list(lines)[: room // _LEAST_SHOWN]
    left, most = room, 0
    for number, length in enumerate(sorted(len(lines[name]) for name in shown)):
        most = left // (len(shown) - number)
        left -= min(length, most)
    for name in shown:
        yield _cut(lines[name], most, name)
    if hidden := list(lines)[len(shown) :]:
        names = clipped(visible(", ".join(hidden)), _LONGEST_BRIEF)
        yield f"… ({len(hidden):,} more arguments of {sum(len(lines[name]) for name in hidden):,} characters: {names})"


def _cut(line: str, most: int, name: str) -> str:
    """Return the beginning of an argument's line, with the number of characters that were left out."""
    if len(line) <= most:
        return line
    about = clipped(visible(name), _LONGEST_NAME)
    kept = max(most - len(about) - _NOTE, 0)
    return f"{line[:kept]}… ({len(line) - kept:,} more characters of {about})"


def _diff_block(change: Change, room: int) -> str:
    lines = diff(Change(masked(change.before), masked(change.after), change.name))
    if not lines:
        return ""
    text = "\n".join(_DIFF_SIGNS[line.kind] + visible(line.text) for line in lines)
    named = f"{_plain(change.name)}:\n\n" if change.name else ""
    return named + _block(clipped(text, room), "diff")


def _block(text: str, language: str) -> str:
    """Return a fenced code block, with a fence that the text cannot close."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def _code(text: str) -> str:
    return visible(text).replace("`", "'").replace("\n", " ")


def _plain(text: str) -> str:
    """Return the text with all Markdown escaped."""
    return re.sub(r"([\\`*_\[\]<>#|~!])", r"\\\1", visible(text).replace("\n", " "))
