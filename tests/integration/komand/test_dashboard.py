"""The start page of the admin: login, dashboard and search by id."""

from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents_app.models import Run
from audit_app.kernel.liveness import ProcessView
from sessions_app.models import Session

pytestmark = pytest.mark.one_database

KINDS = ["running", "queued", "failed", "failed", "completed", "timed_out", "cancelled"]


@pytest.fixture(autouse=True)
def processes(monkeypatch):
    views = [ProcessView(uuid4(), "runs", 4711, "here", True), ProcessView(uuid4(), "tools", 4712, "here", False)]
    monkeypatch.setattr("komand.dashboard.liveness.list_processes", lambda: views)


def test_the_dashboard_counts_what_is_open_and_what_failed(pages, make_run):
    for status in KINDS:
        make_run(status, error_code="model_auth" if status == "failed" else "")
    response = pages.get("/admin/")
    overview = response.context["overview"]
    assert overview.open == {"running": 1, "queued": 1}
    assert (overview.failed, overview.day["completed"]) == (3, 1)
    assert (overview.wait_p50, overview.work_p95) == (1.0, 8.0)
    assert sum(hour.count for hour in overview.hours) == len(KINDS)
    html = response.content.decode()
    assert html.count("<strong>model_auth</strong>") == 4  # among the failures and among the latest
    assert "4711" in html and ">gone<" in html


def test_runs_are_shown_with_names_that_the_operator_may_see(pages, staff, make_run):
    run = make_run("failed")
    Run.objects.update(actor=f"user:{User.objects.create_user('ada').pk}")
    Session.objects.filter(pk=run.conversation_id).update(title="Moons & <b>planets</b>")
    html = pages.get("/admin/").content.decode()
    assert html.count("Moons &amp; &lt;b&gt;planets&lt;/b&gt;") == 2  # among the failures and among the latest
    assert html.count(">ada<") == 2 and html.count(f">{run.agent.name}<") == 2 and html.count("just now") == 2
    assert "Moons" not in staff("agents_app.view_run").get("/admin/").content.decode()


def test_an_empty_installation_has_a_dashboard_too(pages):
    html = pages.get("/admin/").content.decode()
    assert "No runs yet." in html and "nothing waits" in html


def test_the_dashboard_costs_a_fixed_number_of_queries(pages, make_run, django_assert_max_num_queries):
    for _ in range(20):
        make_run("failed")
    with django_assert_max_num_queries(18):
        pages.get("/admin/")


def test_staff_who_may_not_see_runs_see_no_numbers(staff, make_run):
    make_run("failed", error_code="model_auth")
    html = staff("agents_app.view_agent").get("/admin/").content.decode()
    assert "model_auth" not in html and "Failed in 24 h" not in html
    assert "/admin/agents_app/agent/" in html and "/admin/agents_app/run/" not in html


def test_an_object_is_found_by_its_id_by_those_who_may_see_it(pages, staff, make_run):
    run = make_run()
    found = pages.get("/admin/search/", {"s": str(run.pk), "extended": "1"}).content.decode()
    assert f"/admin/agents_app/run/{run.pk}/change/" in found
    hidden = staff("agents_app.view_agent").get("/admin/search/", {"s": str(run.pk), "extended": "1"}).content.decode()
    assert "/admin/agents_app/run/" not in hidden


def test_the_way_in_is_the_login_of_the_chat_page(db):
    response = Client().get("/admin/agents_app/run/", follow=True)
    assert response.redirect_chain[-1][0] == "/login?next=/admin/agents_app/run/"


def test_users_without_staff_rights_see_a_message(db):
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_user("people"), "django.contrib.auth.backends.ModelBackend")
    response = client.get("/admin/", follow=True)
    assert response.status_code == 403 and "Staff only" in response.content.decode()
