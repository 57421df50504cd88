"""Origins of what sessions have read, from their executions and, through a port, from their messages. Reads only."""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from django.db.models import Q

from audit_app.kernel.advisory_lock import serialize
from tools_app import catalogue, hot_queries
from tools_app.models import UNKNOWN_ORIGINS, ToolExecution
from tools_app.policy import seen_values, taint, targets
from tools_app.policy.patterns import PolicyCall
from tools_app.policy.taint import Egress, Taint
from tools_app.policy.targets import Url
from tools_app.registry import tools
from tools_app.types import Decision, Reads, TargetKind

_FREE = tuple(f"allow: {reason}" for reason in (taint.FOLLOWED, taint.CHOSEN))


@dataclass(frozen=True)
class SessionTexts:
    """Texts of a session's messages.

    own: readings that users of this installation have written.
    others: the other ones.
    answered: ids of the executions that users here have answered.
    """

    own: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()


class StoredCall(NamedTuple):
    """A call that was executed, or is to be, as `hot_queries` reads it."""

    tool: str
    agent_id: str
    arguments: dict[str, Any]


class SessionReader(Protocol):
    """The port to the messages of sessions, which `sessions_app` implements."""

    def origins(self, session_id: UUID) -> tuple[str, ...]:
        """Return the origins of the texts that no user here has written, such as `file:attachment`."""
        ...

    def texts(self, session_id: UUID) -> SessionTexts:
        """Return the texts, the newest first."""
        ...

    def answered_at(self, session_id: UUID, run_id: UUID) -> datetime | None:
        """Return the time of the last message of a person before the run, or before the root of its tree, or None."""
        ...


_registered: list[SessionReader] = []


def register(reader: SessionReader) -> None:
    _registered[:] = [reader]


def list_origins(session_id: UUID) -> tuple[str, ...]:
    """Return the origins of everything that the session's runs have read, each once."""
    found: list[str] = []
    for stored, execution_id in hot_queries.LIST_ORIGINS.rows(session_id=session_id):
        found += _origins_now(execution_id) if stored == UNKNOWN_ORIGINS else stored.splitlines()
    for reader in _registered:
        found += reader.origins(session_id)
    return tuple(dict.fromkeys(found))


def list_own_texts(session_id: UUID) -> list[str]:
    """Return the texts of the session that users here have written, and their answers to questions."""
    return _own_of(_texts_of(session_id))


def load_taint(session_id: UUID, run_id: UUID, origins: tuple[str, ...], egress: Egress) -> Taint:
    """Return the taint of a run whose session has read these origins. egress: of the call to decide."""
    texts = _texts_of(session_id)
    named = frozenset().union(*map(taint.named_urls, _own_of(texts)))
    unknown = set(egress.urls) - named
    calls = _newest_calls(session_id) if unknown else []
    links = frozenset(text for text in unknown if _is_read(text, session_id, calls, texts.others))
    is_choice = bool(links) if egress.is_bare else bool(egress.choices)
    letters = _count_letters(session_id, run_id) if is_choice else 0
    return Taint(origins, named, links, letters, frozenset(_allowed_destinations(run_id)))


def _count_letters(session_id: UUID, run_id: UUID) -> int:
    """Return the letters that calls of the session may have carried since the message that the run's tree answers.

    Child runs work at the same time, so the caller's transaction holds a lock until its calls are stored.
    """
    serialize(f"choices of {session_id}")
    rows = ToolExecution.objects.filter(~Q(origins=""), session_id=session_id, decision__in=_FREE)
    since = next((reader.answered_at(session_id, run_id) for reader in _registered), None)
    rows = rows.filter(created_at__gte=since) if since else rows
    calls = (StoredCall(*row) for row in rows.order_by().values_list(*StoredCall._fields))
    egresses = ((call, _egress_of(call)) for call in calls)
    return sum(egress.choices if egress else 1 + len(call.arguments) for call, egress in egresses)


def is_known(tool: str, arguments: dict[str, Any], *, session_id: UUID, run_id: UUID) -> bool:
    """Return whether a call is made of values that an approver allowed for the run, or a person here has written."""
    allowed = ToolExecution.objects.filter(run_id=run_id, tool=tool, approval__decision=Decision.ALLOW_RUN.value)
    return seen_values.repeats(arguments, allowed.values_list("arguments", flat=True), list_own_texts(session_id))


def _origins_now(execution_id: UUID) -> tuple[str, ...]:
    """Return the origins of a row of a release that stored none: those of its tool as it is now."""
    row = ToolExecution.objects.only("tool", "agent_id", "arguments").get(pk=execution_id)
    tool = catalogue.find_tool(row.tool, row.agent_id)
    if tool is None:
        return (f"tool:{row.tool}",)
    if tool.spec.reads is Reads.STORED:
        return (UNKNOWN_ORIGINS,)
    return taint.origins_of(PolicyCall(tool.spec, row.arguments))


def _texts_of(session_id: UUID) -> SessionTexts:
    return next((reader.texts(session_id) for reader in _registered), SessionTexts())


def _own_of(texts: SessionTexts) -> list[str]:
    return [*texts.own, *_own_answers(texts.answered)]


def _newest_calls(session_id: UUID) -> list[StoredCall]:
    """Return the newest calls of the session that may have read something from outside, the newest first."""
    return [StoredCall(*row) for row in hot_queries.LIST_READING_CALLS.rows(session_id=session_id)]


def _own_answers(execution_ids: Collection[str]) -> Iterator[str]:
    """Yield the answers to questions in the users' own words. An option is a text of the model."""
    if not execution_ids:
        return
    rows = ToolExecution.objects.filter(pk__in=execution_ids, runs_in_loop=False)  # servers' results are not answers
    for output in rows.values_list("output", flat=True):
        value = _value(output)
        if not isinstance(value, dict):
            continue
        if isinstance(whole := value.get("text"), str):
            yield whole
        for answer in (value, *value.get("answers", ())):
            if answer.get("is_option") is False:
                yield str(answer.get("answer"))


def _is_read(link: str, session_id: UUID, calls: Collection[StoredCall], texts: Iterable[str]) -> bool:
    """Return whether one of the calls has sent just this link before, or it stands in what others wrote.

    Others did not write what an earlier call has carried out to them.
    """
    with_link = (call for call in calls if link in targets.texts_in(call.arguments))
    if any((egress := _egress_of(call)) and egress.is_bare and egress.urls == (link,) for call in with_link):
        return True
    if _is_carried_out(link, calls):
        return False
    if any(link in taint.links_in(text) for text in texts):
        return True
    stored = [tool.spec.name for tool in tools if tool.spec.reads is not Reads.OUTSIDE]
    rows = hot_queries.reading_calls(session_id).exclude(tool__in=stored).filter(output__contains=link)
    for output in rows.values_list("output", flat=True)[: hot_queries.CALLS_SEARCHED]:
        if any(link in taint.links_in(text) for text in targets.texts_in(_value(output))):
            return True
    return False


def _is_carried_out(link: str, calls: Iterable[StoredCall]) -> bool:
    """Return whether an earlier call has sent the link to another place, which may have sent it back."""
    without_scheme, url = link.partition("://")[2], targets.read_url(link)
    for call in calls:
        for name, value in call.arguments.items():
            sent = targets.texts_in(value)
            if any(without_scheme in targets.decoded(text) for text in sent) and not _goes_to(url, call, name):
                return True
    return False


def _goes_to(url: Url | None, call: StoredCall, argument: str) -> bool:
    """Return whether the argument is the URL that the call went to, on the same host."""
    tool = catalogue.find_tool(call.tool, call.agent_id)
    if url is None or tool is None or targets.targets_of(tool.spec).get(argument) is not TargetKind.URL:
        return False
    to = targets.read_url(str(call.arguments[argument]))
    return to is not None and to.authority == url.authority


def _value(output: str | None) -> object:
    try:
        return json.loads(output or "null")
    except (ValueError, RecursionError):
        return output


def _allowed_destinations(run_id: UUID) -> Iterator[str]:
    """Yield the places to which an approver has allowed calls for the rest of the run."""
    for row in hot_queries.LIST_CALLS_ALLOWED_FOR_RUN.rows(run_id=run_id):
        egress = _egress_of(StoredCall(*row))
        yield from (place.name for place in egress.destinations) if egress else ()


def _egress_of(call: StoredCall) -> Egress | None:
    tool = catalogue.find_tool(call.tool, call.agent_id)
    return taint.find_egress(PolicyCall(tool.spec, call.arguments)) if tool else None
