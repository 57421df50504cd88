"""Lists and searches a user's agent runs. Synchronous."""

import base64
import binascii
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from audit_app.kernel.errors import InvalidInput
from sessions_app.models import Session, Turn
from sessions_app.surfaces.agent_messages.agent_runs import NAME, AgentRun, agent_runs, has_status, of_row

MOST = 200
_PAGE = 50
_MOST_OFFSET = 1_000_000
_COLUMNS = {"started_at": "created_at", "updated_at": "last_active_at"}
_STATUSES = ("created", "running", "completed", "failed", "cancelled")


def list_runs(user: User, query: Mapping[str, str]) -> tuple[list[AgentRun], int, str | None]:
    """(a page, how many there are, the cursor of the next page). Raises InvalidInput."""
    rows = _filtered(user, query)
    total = rows.count()
    name, order = query.get("sort", "started_at"), query.get("order", "desc")
    if name not in _COLUMNS or order not in ("asc", "desc"):
        raise InvalidInput("sort is started_at or updated_at, order is asc or desc.", code="invalid_sort")
    column, sign, limit = _COLUMNS[name], "-" if order == "desc" else "", _number(query, "limit", _PAGE, MOST)
    rows = rows.order_by(f"{sign}{column}", f"{sign}id")
    if cursor := query.get("cursor", ""):
        rows = rows.filter(_after(cursor, column, order))
    offset = _number(query, "offset", 0, _MOST_OFFSET, least=0)
    found = list(rows[offset : offset + limit + 1])
    following = _cursor(found[limit - 1], column) if len(found) > limit else None
    return [of_row(row) for row in found[:limit]], total, following


def search_runs(user: User, query: Mapping[str, str]) -> tuple[list[tuple[AgentRun, float]], int]:
    """(runs with their scores, how many there are). Words in a title count more than those in what was said."""
    rows, words = _filtered(user, query), query.get("query", "").replace("\0", "").strip()
    for name in ("tags", "categories"):
        wanted = set(filter(None, query.get(name, "").split(",")))
        if wanted:
            rows = rows.filter(pk__in=_labelled(rows, name, wanted))
    if words:
        said = Turn.objects.filter(session_id=OuterRef("pk"), content__icontains=words)
        about = Q(title__icontains=words) | Q(**{f"metadata__{NAME}__topic__icontains": words})
        rows = rows.filter(about | Q(**{f"metadata__{NAME}__interaction__icontains": words}) | Q(Exists(said)))
    rows = rows.order_by(*_orders(query.get("sort", "")))
    limit, offset = _number(query, "limit", _PAGE, MOST), _number(query, "offset", 0, _MOST_OFFSET, least=0)
    found = [of_row(row) for row in rows[offset : offset + limit]]
    return [(run, _score(run, words)) for run in found], rows.count()


def _filtered(user: User, query: Mapping[str, str]) -> QuerySet[Session]:
    rows = agent_runs().filter(owner=user, deleted_at=None, metadata__has_key=NAME)
    if run_id := query.get("id", ""):
        rows = rows.filter(pk=run_id) if _is_uuid(run_id) else rows.none()
    if statuses := [name for name in query.get("status", "").split(",") if name]:
        if not set(statuses) <= set(_STATUSES):
            raise InvalidInput(f"status is one of {', '.join(_STATUSES)}.", code="invalid_status")
        wanted = Q()
        for name in statuses:
            wanted |= has_status(name)
        rows = rows.filter(wanted)
    if interaction := query.get("interaction", ""):
        rows = rows.filter(**{f"metadata__{NAME}__interaction": interaction.replace("\0", "")})
    if query.get("started_by", "") not in ("", f"user:{user.pk}", str(user.pk), user.username, user.email):
        rows = rows.none()
    if since := _moment(query, "since"):
        rows = rows.filter(created_at__gt=since)
    if until := _moment(query, "until"):
        rows = rows.filter(created_at__lte=until)
    if query.get("run_kind", "agent") != "agent" or query.get("schedule_id") or query.get("content_type_name"):
        return rows.none()  # there are none of these
    kinds = [name for name in query.get("run_type", "").split(",") if name]
    is_other = bool(kinds) and "autonomous" not in kinds
    return rows.none() if is_other or query.get("type", "api") != "api" else rows


def _labelled(rows: QuerySet[Session], name: str, wanted: set[str]) -> list[Any]:
    """Lists in JSON cannot be searched on every database."""
    kept = rows.values_list("pk", f"metadata__{NAME}__request__{name}")
    return [pk for pk, labels in kept if isinstance(labels, list) and wanted & set(map(str, labels))]


def _orders(text: str) -> list[str]:
    orders = []
    for item in filter(None, text.split(",")):
        name, _, order = item.partition(":")
        if name not in _COLUMNS or order not in ("", "asc", "desc"):
            raise InvalidInput("sort is a list of started_at or updated_at, with :asc or :desc.", code="invalid_sort")
        orders.append(f"{'' if order == 'asc' else '-'}{_COLUMNS[name]}")
    return [*orders, "-created_at", "-id"]


def _score(run: AgentRun, words: str) -> float:
    return 2.0 if words and words.lower() in run.session.title.lower() else 1.0


def _number(query: Mapping[str, str], name: str, default: int, most: int, least: int = 1) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10) or int(text) < least:
        raise InvalidInput(f"{name} is a whole number of at least {least}.", code=f"invalid_{name}", param=name)
    return min(int(text), most)


def _moment(query: Mapping[str, str], name: str) -> datetime | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        moment = parse_datetime(text)
        day = None if moment else parse_date(text)
    except ValueError:
        moment = day = None
    if moment is None and day is not None:
        moment = datetime(day.year, day.month, day.day, tzinfo=timezone.get_current_timezone())
    try:
        if moment is not None:  # at the ends of the calendar some moments are not to be had in UTC
            return (moment if moment.tzinfo else timezone.make_aware(moment)).astimezone(UTC)
    except OverflowError:
        pass
    raise InvalidInput(f"{name} is a time as of ISO 8601.", code=f"invalid_{name}", param=name)


def _cursor(row: Session, column: str) -> str:
    place = json.dumps([getattr(row, column).isoformat(), str(row.pk)])
    return base64.urlsafe_b64encode(place.encode()).decode()


def _after(cursor: str, column: str, order: str) -> Q:
    try:
        moment, run_id = json.loads(base64.urlsafe_b64decode(cursor))
        at = datetime.fromisoformat(moment)
        if not _is_uuid(run_id) or at.tzinfo is None or abs(at - timezone.now()) > timedelta(days=36500):
            raise ValueError
    except (ValueError, TypeError, OverflowError, binascii.Error):
        raise InvalidInput("The cursor is not one of ours.", code="invalid_cursor", param="cursor") from None
    beyond = "gt" if order == "asc" else "lt"
    return Q(**{f"{column}__{beyond}": at}) | Q(**{column: at, f"id__{beyond}": run_id})


def _is_uuid(text: Any) -> bool:
    try:
        return bool(UUID(text))
    except (ValueError, TypeError, AttributeError):
        return False
