"""Lists and searches of a user's agent runs. Synchronous."""

import base64
import binascii
import json
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from audit_app.kernel.errors import InvalidInput
from sessions_app import selectors
from sessions_app.models import Session, Turn
from sessions_app.surfaces.agent_messages import agent_runs
from sessions_app.surfaces.agent_messages.agent_runs import NAME, STATUSES, AgentRun

MOST = 200
_PAGE = 50
_MOST_OFFSET = 1_000_000
_COLUMNS = {"started_at": "created_at", "updated_at": "last_active_at"}


def list_runs(user: User, query: Mapping[str, str]) -> tuple[list[AgentRun], int, str | None]:
    """Return (a page, the number of all matches, the cursor of the next page). Raises InvalidInput."""
    rows = _filtered(user, query)
    total = rows.count()
    name, order = query.get("sort", "started_at"), query.get("order", "desc")
    if name not in _COLUMNS or order not in ("asc", "desc"):
        raise InvalidInput("`sort` must be started_at or updated_at, `order` asc or desc.", code="invalid_sort")
    column, sign, limit = _COLUMNS[name], "-" if order == "desc" else "", _number(query, "limit", _PAGE, MOST)
    rows = rows.order_by(f"{sign}{column}", f"{sign}id")
    if cursor := query.get("cursor", ""):
        rows = rows.filter(_after(cursor, column, order))
    offset = _number(query, "offset", 0, _MOST_OFFSET, least=0)
    found = list(rows[offset : offset + limit + 1])
    following = None
    if len(found) > limit:
        position = json.dumps([getattr(found[limit - 1], column).isoformat(), str(found[limit - 1].pk)])
        following = base64.urlsafe_b64encode(position.encode()).decode()
    return [agent_runs.from_row(row) for row in found[:limit]], total, following


def search_runs(user: User, query: Mapping[str, str]) -> tuple[list[tuple[AgentRun, float]], int]:
    """Return ((run, score) pairs, the number of all matches). Matches in the title score 2, others 1."""
    rows, text = _filtered(user, query), query.get("query", "").replace("\0", "").strip()
    for name in ("tags", "categories"):
        if labels := set(filter(None, query.get(name, "").split(","))):
            # In Python, because not every database can search arrays in JSON.
            stored = rows.values_list("pk", f"metadata__{NAME}__request__{name}")
            matching = (pk for pk, found in stored if isinstance(found, list) and labels & set(map(str, found)))
            rows = rows.filter(pk__in=list(matching))
    if text:
        turns = Turn.objects.filter(session_id=OuterRef("pk"), content__icontains=text, is_off_path=False)
        in_topic = Q(**{f"metadata__{NAME}__topic__icontains": text})
        in_name = Q(**{f"metadata__{NAME}__interaction__icontains": text})
        rows = rows.filter(Q(title__icontains=text) | in_topic | in_name | Q(Exists(turns)))
    rows = rows.order_by(*_orders(query.get("sort", "")))
    limit, offset = _number(query, "limit", _PAGE, MOST), _number(query, "offset", 0, _MOST_OFFSET, least=0)
    found = [agent_runs.from_row(row) for row in rows[offset : offset + limit]]
    return [(run, 2.0 if text and text.lower() in run.session.title.lower() else 1.0) for run in found], rows.count()


def _filtered(user: User, query: Mapping[str, str]) -> QuerySet[Session]:
    rows = agent_runs.agent_runs().filter(pk__in=selectors.session_ids_of(user), metadata__has_key=NAME)
    if run_id := query.get("id", ""):
        rows = rows.filter(pk=run_id) if _is_uuid(run_id) else rows.none()
    rows = rows.filter(_of_status(query.get("status", "")))
    if interaction := query.get("interaction", ""):
        rows = rows.filter(**{f"metadata__{NAME}__interaction": interaction.replace("\0", "")})
    if query.get("started_by", "") not in ("", f"user:{user.pk}", str(user.pk), user.username, user.email):
        rows = rows.none()
    if since := _moment(query, "since"):
        rows = rows.filter(created_at__gt=since)
    if until := _moment(query, "until"):
        rows = rows.filter(created_at__lte=until)
    return rows.none() if _wants_others(query) else rows


def _of_status(text: str) -> Q:
    statuses = [name for name in text.split(",") if name]
    if not set(statuses) <= set(STATUSES):
        raise InvalidInput(f"`status` must be one of {', '.join(STATUSES)}.", code="invalid_status")
    wanted = Q()
    for name in statuses:
        wanted |= agent_runs.status_filter(name)
    return wanted


def _wants_others(query: Mapping[str, str]) -> bool:
    """Return whether the query is about runs of other kinds, schedules or content types, which this server lacks."""
    kinds = [name for name in query.get("run_type", "").split(",") if name]
    if query.get("run_kind", "agent") != "agent" or query.get("type", "api") != "api":
        return True
    return bool(kinds and "autonomous" not in kinds or query.get("schedule_id") or query.get("content_type_name"))


def _orders(text: str) -> list[str]:
    orders = []
    for item in filter(None, text.split(",")):
        name, _, order = item.partition(":")
        if name not in _COLUMNS or order not in ("", "asc", "desc"):
            message = "`sort` must be a list of started_at or updated_at, each with an optional :asc or :desc."
            raise InvalidInput(message, code="invalid_sort")
        orders.append(f"{'' if order == 'asc' else '-'}{_COLUMNS[name]}")
    return [*orders, "-created_at", "-id"]


def _number(query: Mapping[str, str], name: str, default: int, most: int, least: int = 1) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10) or int(text) < least:
        raise InvalidInput(f"`{name}` must be an integer of at least {least}.", code=f"invalid_{name}", param=name)
    return min(int(text), most)


def _moment(query: Mapping[str, str], name: str) -> datetime | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        moment, day = parse_datetime(text), None
        if moment is None and (day := parse_date(text)):
            moment = datetime.combine(day, time())
        if moment is not None:  # OverflowError: the ends of the calendar do not exist in UTC
            return (moment if moment.tzinfo else timezone.make_aware(moment)).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidInput(f"`{name}` must be a time in ISO 8601.", code=f"invalid_{name}", param=name)


def _after(cursor: str, column: str, order: str) -> Q:
    try:
        moment, run_id = json.loads(base64.urlsafe_b64decode(cursor))
        at = datetime.fromisoformat(moment)
        if not _is_uuid(run_id) or at.tzinfo is None or abs(at - timezone.now()) > timedelta(days=36500):
            raise ValueError
    except (ValueError, TypeError, OverflowError, binascii.Error):
        message = "`cursor` is invalid: use a `next_cursor` of this server."
        raise InvalidInput(message, code="invalid_cursor", param="cursor") from None
    beyond = "gt" if order == "asc" else "lt"
    return Q(**{f"{column}__{beyond}": at}) | Q(**{column: at, f"id__{beyond}": run_id})


def _is_uuid(text: Any) -> bool:
    try:
        return bool(UUID(text))
    except (ValueError, TypeError, AttributeError):
        return False
