"""Fresh logins in the admin, with operators who hold every right."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents_app.models import Agent
from audit_app.models import AuditEntry
from sessions_app.identity import access_tokens
from tests.integration.agents_app.admin.test_pending_approvals import SURE
from tests.security.test_people_fresh_login import OLD, approval_of, make_old
from tests.support.rest import RestCaller, make_agent, make_user
from tools_app.secrets import credentials

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture
def operator() -> User:
    return make_user("ada", is_staff=True, is_superuser=True)


@pytest.fixture
def pages(operator: User) -> Client:
    """Return a browser with a login of eleven minutes ago."""
    client = Client()
    client.force_login(operator)
    make_old(client)
    return client


def confirm(pages: Client) -> None:
    assert pages.post("/login/confirm", {"password": "secret-enough"}).status_code == 302


def test_pages_of_credentials_take_a_fresh_login(pages: Client) -> None:
    row, _ = credentials.store_credential("crm", "a-secret-value", owner_id=None)
    for path in (
        reverse("admin:tools_app_credential_changelist"),
        reverse("admin:tools_app_credential_change", args=[row.pk]),
        reverse("admin:tools_app_credential_delete", args=[row.pk]),
        reverse("admin:tools_app_credential_add"),
        reverse("admin:sessions_app_apikey_add"),
    ):
        response = pages.get(path)
        assert response.headers["Location"].startswith("/login/confirm?next=%2Fadmin%2F"), path
        assert b"crm" not in response.content
    assert AuditEntry.objects.filter(action="FreshLoginRequired").count() == 5
    confirm(pages)
    assert b"crm" in pages.get(reverse("admin:tools_app_credential_changelist")).content


def test_staff_without_the_right_are_refused_without_a_detour() -> None:
    client = Client()
    client.force_login(make_user("sam", is_staff=True))
    make_old(client)
    assert client.get(reverse("admin:tools_app_credential_changelist")).status_code == 403


def test_the_queue_takes_a_fresh_login_to_allow_high_risk(pages: Client, operator: User) -> None:
    approval = approval_of(operator)
    page = reverse("admin:tools_app_approval_change", args=[approval.pk])
    headers = {"Referer": f"http://testserver{page}"}
    allow = f"/admin/tools_app/approval/{approval.pk}/approve/"
    response = pages.post(allow, {**SURE, "note": ""}, headers=headers)
    assert response.headers["Location"].startswith("/login/confirm?next=%2Fadmin%2Ftools_app%2Fapproval%2F")
    approval.refresh_from_db()
    assert approval.status == "pending"
    pages.post(f"/admin/tools_app/approval/{approval.pk}/deny/", {**SURE, "note": ""}, headers=headers)
    approval.refresh_from_db()
    assert approval.status == "denied"


def test_autonomy_over_rest_takes_a_fresh_login(operator: User) -> None:
    make_agent("mine")
    old = RestCaller(bearer=access_tokens.open_login(operator, authenticated_at=OLD).access)
    refused = old.put("agents/mine", {"autonomy": "full"})
    assert (refused.status, refused.meta["code"]) == (403, "fresh_login_required")
    assert old.put("agents/mine", {"description": "Books trips."}).status == 200
    assert RestCaller(operator).put("agents/mine", {"autonomy": "full"}).status == 200


def test_autonomy_in_the_admin_keeps_the_form_and_asks_for_a_fresh_login(pages: Client) -> None:
    agent = make_agent("mine")
    page = reverse("admin:agents_app_agent_change", args=[agent.pk])
    form = pages.get(page).context["adminform"].form
    fields = {name: "" if value is None else value for name, value in form.initial.items()}
    fields |= {name: ", ".join(value) for name, value in fields.items() if isinstance(value, list)}
    fields |= {"autonomy": "full", "all_tools": "on"}
    response = pages.post(page, {**fields, "chosen_tools": []})
    assert response.status_code == 200 and b'href="/login/confirm"' in response.content
    assert Agent.objects.get(pk=agent.pk).autonomy == "supervised"
