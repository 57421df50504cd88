"""The queue of approvals in the admin: each request is shown and decided once."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents_app.models import Run
from audit_app.models import AuditEntry
from tools_app.executions.approvals import digest_of
from tools_app.models import Approval, ToolExecution
from tools_app.registry import tools
from tools_app.types import Tool, ToolSpec

pytestmark = pytest.mark.one_database

LIST = "/admin/tools_app/approval/"
SURE = {"_form_submitted": "True"}


class Edit(Tool):
    """A tool whose schema has a text before and after."""

    spec = ToolSpec("edit", "Edits.", {"type": "object", "properties": {"password": {}, "old": {}, "new": {}}})

    def run(self, arguments, context):
        return ""


@pytest.fixture
def approval(make_run) -> Approval:
    """Return the pending approval of a run with one call."""
    run = make_run("waiting", waiting_on="approval")
    ToolExecution.objects.update(status="Pending", risk="high", effect="once", output=None, completed_at=None)
    execution = ToolExecution.objects.get(run_id=run.pk)
    now = timezone.now()
    return Approval.objects.create(
        execution=execution,
        run_id=run.pk,
        digest=digest_of(execution),
        reason="The call is of high risk.",
        created_at=now,
        expires_at=now + timedelta(minutes=30),
    )


def badges(response) -> list[str]:
    items = [item for group in response.context["sidebar_navigation"] for item in group["items"]]
    return [item["badge"] for item in items if "badge" in item]


def test_a_menu_without_waiting_calls_has_no_badge(pages, agent):
    assert badges(pages.get("/admin/")) == []


def test_a_request_shows_what_the_decision_needs(pages, approval):
    html = pages.get(f"{LIST}{approval.pk}/change/").content.decode()
    buttons = ("/approve/", "/approve-run/", "/approve-always/", "/deny/")
    for text in ("17*23", "calculator", "The call is of high risk.", "High risk, never repeated", *buttons):
        assert text in html, text


def test_approving_lets_the_call_run_and_is_audited(pages, operator, approval):
    pages.post(f"{LIST}{approval.pk}/approve/", {**SURE, "note": "fine"})
    approval.refresh_from_db()
    assert (approval.status, approval.decided_by, approval.note) == ("approved", f"user:{operator.pk}", "fine")
    assert ToolExecution.objects.get().status == "Pending"
    assert AuditEntry.objects.get(action="ApprovalDecided").details["decided_by"] == f"user:{operator.pk}"


def test_denying_ends_the_call_with_the_reason(pages, approval):
    pages.post(f"{LIST}{approval.pk}/deny/", {**SURE, "note": "too dear"})
    execution = ToolExecution.objects.get()
    assert execution.status == "Failed" and "too dear" in execution.error


def test_only_the_first_decision_counts(pages, approval):
    pages.post(f"{LIST}{approval.pk}/approve/", SURE)
    html = pages.post(f"{LIST}{approval.pk}/deny/", SURE, follow=True).content.decode()
    approval.refresh_from_db()
    assert approval.status == "approved"
    assert "has already been approved" in html and "/approve/" not in html


def test_asking_decides_nothing(pages, approval):
    assert "Allow this call?" in pages.get(f"{LIST}{approval.pk}/approve/").content.decode()
    approval.refresh_from_db()
    assert approval.status == "pending"


def test_staff_who_may_only_look_cannot_decide(staff, approval):
    viewer = staff("tools_app.view_approval")
    assert "/approve/" not in viewer.get(f"{LIST}{approval.pk}/change/").content.decode()
    assert viewer.post(f"{LIST}{approval.pk}/approve/", SURE).status_code == 403
    approval.refresh_from_db()
    assert approval.status == "pending"


def test_what_waits_is_seen_on_the_dashboard_the_menu_and_the_run(pages, approval):
    dashboard = pages.get("/admin/")
    assert dashboard.context["pending_approvals"] == 1
    assert badges(dashboard) == ["1"]
    assert "1 tool call for approval" in dashboard.content.decode()
    run = pages.get(f"/admin/agents_app/run/{Run.objects.get().pk}/change/").content.decode()
    assert f"/admin/tools_app/approval/{approval.pk}/change/" in run


def test_the_list_is_filtered_by_status_and_costs_a_fixed_number_of_queries(
    pages, approval, django_assert_max_num_queries
):
    with django_assert_max_num_queries(9):
        assert "17*23" in pages.get(LIST, {"status__exact": "pending"}).content.decode()
    assert "17*23" not in pages.get(LIST, {"status__exact": "denied"}).content.decode()


@pytest.mark.parametrize(("path", "decision"), [("approve-run", "allow_run"), ("approve-always", "allow_always")])
def test_a_call_may_be_allowed_for_longer(pages, approval, path, decision):
    Approval.objects.update(run_pattern="calculator", pattern="calculator(expression=17*)")
    assert "calculator(expression=17*)" in pages.get(f"{LIST}{approval.pk}/change/").content.decode()
    pages.post(f"{LIST}{approval.pk}/{path}/", SURE)
    approval.refresh_from_db()
    assert (approval.status, approval.decision) == ("approved", decision)


def test_what_cannot_be_allowed_for_ever_is_not_offered(pages, approval):
    Approval.objects.update(is_standing=False)
    assert "/approve-always/" not in pages.get(f"{LIST}{approval.pk}/change/").content.decode()
    pages.post(f"{LIST}{approval.pk}/approve-always/", SURE)
    approval.refresh_from_db()
    assert approval.status == "pending"


def test_what_waits_stands_above_the_list(pages, approval):
    html = pages.get(LIST).content.decode()
    assert html.index("Waiting for a decision") < html.index('id="result_list"')
    pages.post(f"{LIST}{approval.pk}/deny/", SURE)
    assert "Waiting for a decision" not in pages.get(LIST).content.decode()


def test_arguments_are_masked_and_a_change_is_shown_as_one(pages, approval):
    arguments = {"password": "hunter2", "old": "one\ntwo", "new": "one\n<b>2</b>"}
    ToolExecution.objects.filter(pk=approval.execution_id).update(tool="edit", arguments=arguments)
    with tools.override(Edit()):
        html = pages.get(f"{LIST}{approval.pk}/change/").content.decode() + pages.get(LIST).content.decode()
    assert "hunter2" not in html and "••• (7 characters)" in html
    assert '<span class="k-removed">\u2212 two</span><span class="k-added">+ &lt;b&gt;2&lt;/b&gt;</span>' in html
