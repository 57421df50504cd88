"""The audit log in the admin: filtered and exported, not written and not counted."""

import csv
import io
from datetime import datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from audit_app.chain import sealer
from audit_app.kernel.ids import first_id_at, new_id
from audit_app.models import AuditEntry

pytestmark = pytest.mark.one_database

LIST = "/admin/audit_app/auditentry/"
BIG_TABLES = [
    "audit_app/auditentry",
    "audit_app/event",
    "agents_app/run",
    "tools_app/toolexecution",
    "sessions_app/session",
]


def entry(action="MessageReceived", actor="user:1", at=None, **fields) -> AuditEntry:
    at = at or timezone.now()
    key = first_id_at(at) if at < timezone.now() - timedelta(days=1) else new_id()
    return AuditEntry.objects.create(id=key, action=action, actor=actor, at=at, **fields)


def shown(response) -> int:
    return response.content.decode().count('class="field-when')


@pytest.mark.parametrize("table", BIG_TABLES)
def test_no_list_counts_its_table(pages, make_run, table):
    make_run()
    with CaptureQueriesContext(connection) as queries:
        assert pages.get(f"/admin/{table}/?p=2").status_code == 200
    counted = [query["sql"] for query in queries if "COUNT(" in query["sql"].upper()]
    assert not [sql for sql in counted if "komand_approval" not in sql]  # the menu's badge counts the few that wait


@pytest.mark.parametrize("page", ["0", "-3", "999999", "x"])
def test_an_impossible_page_number_is_harmless(pages, page):
    assert pages.get(LIST, {"p": page}).status_code == 200


def test_pages_lead_to_older_entries_and_back(pages):
    AuditEntry.objects.bulk_create(AuditEntry(id=new_id(), action="A", actor="x", at=timezone.now()) for _ in range(51))
    first, second = pages.get(LIST), pages.get(LIST, {"p": "2"})
    assert (shown(first), shown(second)) == (50, 1)
    assert 'rel="next"' in first.content.decode() and 'rel="prev"' not in first.content.decode()
    assert 'rel="prev"' in second.content.decode() and 'rel="next"' not in second.content.decode()


def test_entries_are_filtered_by_action_and_the_filter_offers_what_occurs(pages):
    entry("RunFailed")
    entry("RunFailed")
    entry("SessionCreated")
    response = pages.get(LIST, {"action": "RunFailed"})
    assert shown(response) == 2
    assert '<option value="SessionCreated"' in response.content.decode()


def test_entries_are_filtered_by_day_both_ends_included(pages):
    for day in ("2026-03-01", "2026-03-02", "2026-03-03"):
        entry(at=datetime.fromisoformat(f"{day}T23:30:00+00:00"))
    assert shown(pages.get(LIST, {"at_from": "2026-03-02", "at_to": "2026-03-03"})) == 2
    assert shown(pages.get(LIST, {"at_from": "nonsense"})) == 3


def test_text_is_found_in_actor_and_details_of_the_newest_entries(pages, monkeypatch):
    monkeypatch.setattr("audit_app.admin_base.base.SEARCH_ROWS", 2)
    entry(at=timezone.now() - timedelta(days=40), details={"tool": "calculator"})
    entry(details={"tool": "calculator"})
    entry(actor="user:calculator")
    assert shown(pages.get(LIST, {"q": "calculator"})) == 2
    assert shown(pages.get(LIST, {"q": "calculator", "at_from": "2001-01-01"})) == 3


def test_a_session_is_found_by_its_id_however_old(pages, make_run):
    run = make_run()
    entry(at=timezone.now() - timedelta(days=400), session_id=run.conversation_id)
    assert shown(pages.get(LIST, {"q": str(run.conversation_id)})) == 1


def test_a_request_is_found_by_its_id_even_if_that_looks_like_one_of_ours(pages):
    entry(request_id="01a1fe8522ba7114a9e8b5e1cfc8bbd3")
    entry()
    assert shown(pages.get(LIST, {"q": "01a1fe8522ba7114a9e8b5e1cfc8bbd3"})) == 1
    assert shown(pages.get(LIST, {"q": str(new_id())})) == 0


@pytest.mark.parametrize("path", ["add/", "{pk}/change/", "{pk}/delete/"])
def test_the_log_is_read_only(pages, path):
    row = entry()
    assert pages.post(LIST + path.format(pk=row.pk), {"actor": "someone", "post": "yes"}).status_code == 403
    row.refresh_from_db()
    assert row.actor == "user:1"


def test_an_entry_shows_its_details_whole(pages):
    row = entry(details={"reason": "because", "deep": {"list": [1, 2]}}, request_id="r-1")
    html = pages.get(f"{LIST}{row.pk}/change/").content.decode()
    assert "because" in html and "&quot;deep&quot;" in html and "?q=r-1" in html


def test_staff_without_the_right_neither_see_nor_export(staff):
    without_permission = staff("agents_app.view_run")
    assert without_permission.get(LIST).status_code == 403
    assert without_permission.get(f"{LIST}export").status_code == 403


@pytest.fixture
async def exporting(transactional_db):
    """Close the connections of an async request's threads, which would keep the test database open."""
    yield
    await sync_to_async(connections.close_all)()


async def _export(user, query="") -> list[list[str]]:
    client = AsyncClient()
    await client.aforce_login(user, "django.contrib.auth.backends.ModelBackend")
    response: Any = await client.get(f"{LIST}export{query}")
    assert response.status_code == 200 and response["Content-Type"].startswith("text/csv")
    text = "".join([chunk.decode() async for chunk in response.streaming_content])
    return list(csv.reader(io.StringIO(text)))


async def test_the_export_holds_what_the_filters_leave_newest_first(exporting, operator, monkeypatch):
    monkeypatch.setattr("audit_app.admin.export._CHUNK", 2)
    await AuditEntry.objects.abulk_create(
        AuditEntry(id=new_id(), action="A", actor=f"user:{n}", at=timezone.now()) for n in range(5)
    )
    await AuditEntry.objects.acreate(action="B", actor="other", at=timezone.now())
    header, *rows = await _export(operator, "?action=A")
    assert [row[header.index("actor")] for row in rows] == [f"user:{n}" for n in (4, 3, 2, 1, 0)]


async def test_the_export_disarms_formulas_and_is_audited(exporting, operator):
    await AuditEntry.objects.acreate(
        action="A", actor='=HYPERLINK("http://evil")', at=timezone.now(), details={"text": 'a,b\n"c"'}
    )
    header, row = await _export(operator, "?action=A")
    assert row[header.index("actor")] == '\'=HYPERLINK("http://evil")'
    assert row[header.index("details")] == '{"text":"a,b\\n\\"c\\""}'
    exported = await AuditEntry.objects.aget(action="AuditExported")
    assert (exported.actor, exported.details) == (f"user:{operator.pk}", {"filters": "action=A"})


@pytest.mark.django_db
def test_the_log_is_verified_on_demand_by_those_who_may_read_it(pages, staff, operator, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    assert "not been verified" in pages.get(f"{LIST}verify").content.decode()
    first, second = entry(), entry()
    sealer.seal_all()
    for client, status in ((staff(), 403), (staff("audit_app.view_auditentry", name="reader"), 302)):
        assert client.post(f"{LIST}verify").status_code == status
    assert "<strong>Unbroken</strong>" in pages.get(f"{LIST}verify").content.decode()
    AuditEntry.objects.filter(pk=first.pk).delete()
    page = pages.post(f"{LIST}verify", follow=True).content.decode()
    assert "<strong>Broken</strong>" in page and "Entry 1 is missing." in page
    result = AuditEntry.objects.filter(action="AuditVerified").first()
    assert result is not None and result.actor == f"user:{operator.pk}"
    assert f"{second.pk}" in pages.get(LIST, {"q": str(second.pk)}).content.decode()
