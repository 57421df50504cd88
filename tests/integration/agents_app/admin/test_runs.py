"""Runs in the admin: timeline, list, stop and retry."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from agents_app.models import Run
from audit_app.models import AuditEntry
from sessions_app.models import Session

pytestmark = pytest.mark.one_database

LIST = "/admin/agents_app/run/"


def page_of(run: Run) -> str:
    return reverse("admin:agents_app_run_change", args=[run.pk])


def yes(**fields):
    return {"_form_submitted": "True", **fields}


def test_a_run_reads_as_a_timeline(pages, make_run):
    run = make_run(calls=2, error_code="", answer="391")
    html = pages.get(page_of(run)).content.decode()
    assert "Step 1" in html and "Let me see." in html
    assert html.count('class="k-call"') == 2
    assert "17*23" in html and "391" in html
    assert "run.queued" in html and "+1.0 s" in html
    assert "request-7" in html and "1,234 in, 56 out" in html


def test_a_failed_run_shows_the_reason(pages, make_run):
    run = make_run("failed", error_code="model_auth", error_message="The key was refused. Enter another.", crashes=2)
    html = pages.get(page_of(run)).content.decode()
    assert "model_auth" in html and "The key was refused. Enter another." in html


def test_calls_that_were_never_tried_are_shown(pages, make_run):
    run = make_run(calls=0)
    run.steps.update(tool_calls=[{"id": "c", "name": "web_fetch", "arguments": "{broken"}])
    html = pages.get(page_of(run)).content.decode()
    assert "not tried" in html and "{broken" in html


def test_an_open_run_refreshes_itself_and_an_ended_one_does_not(pages, make_run):
    assert 'hx-trigger="every 2s' in pages.get(page_of(make_run("running"))).content.decode()
    assert 'hx-trigger="every 2s' not in pages.get(page_of(make_run("completed"))).content.decode()


def test_a_long_run_costs_no_more_queries_than_a_short_one(pages, make_run, django_assert_max_num_queries):
    for calls in (1, 30):
        run = make_run(calls=calls)
        with django_assert_max_num_queries(13):
            pages.get(page_of(run))


def test_a_list_shows_names_and_the_time_that_has_passed(pages, staff, make_run, operator):
    run = make_run()
    Session.objects.filter(pk=run.conversation_id).update(title="Planets and moons")
    Run.objects.filter(pk=run.pk).update(actor=f"user:{operator.pk}", created_at=timezone.now() - timedelta(minutes=3))
    shown = pages.get(LIST).content.decode()
    for text in ("Planets and moons", "Assistant", f'<span title="user:{operator.pk}">operator</span>', "3 min ago"):
        assert text in shown
    assert "Planets and moons" in pages.get(page_of(run)).content.decode()
    # A title is taken from a message: who may not see sessions does not see it.
    assert "Planets and moons" not in staff("agents_app.view_run").get(LIST).content.decode()


def test_a_long_list_costs_no_more_queries_than_a_short_one(pages, make_run, django_assert_max_num_queries):
    for _ in range(12):
        make_run()
    with django_assert_max_num_queries(9):
        assert pages.get(LIST).content.decode().count('name="_selected_action"') == 12


@pytest.mark.parametrize("address", ["not-an-id", "01a1fe6a-86c0-7508-8efe-c705408a18ca"])
def test_a_run_that_does_not_exist_leads_back(pages, address):
    assert pages.get(f"{LIST}{address}/change/").status_code == 302


def test_runs_are_found_by_id_session_and_request(pages, make_run):
    run = make_run()
    make_run(text="another", error_message="zebra")
    for term in (run.pk, run.conversation_id):
        assert pages.get(LIST, {"q": str(term)}).content.decode().count('name="_selected_action"') == 1
    assert pages.get(LIST, {"q": "zebra"}).content.decode().count('name="_selected_action"') == 1
    assert pages.get(LIST, {"q": "request-7"}).content.decode().count('name="_selected_action"') == 2


def test_runs_are_filtered_by_status_and_day(pages, make_run):
    make_run("failed")
    make_run("completed")
    for query, count in [
        ("status__exact=failed", 1),
        ("status__exact=failed&status__exact=completed", 2),
        ("created_at_from=2001-01-01&created_at_to=2001-02-01", 0),
        ("created_at_from=2001-01-01", 2),
    ]:
        assert pages.get(f"{LIST}?{query}").content.decode().count('name="_selected_action"') == count, query


def test_asking_whether_to_stop_stops_nothing(pages, make_run):
    run = make_run("queued")
    assert "Stop this run?" in pages.get(f"{LIST}{run.pk}/cancel/").content.decode()
    run.refresh_from_db()
    assert run.status == "queued"


def test_stopping_a_run_ends_it_with_the_reason_and_is_audited(pages, operator, make_run):
    run = make_run("queued")
    response = pages.post(f"{LIST}{run.pk}/cancel/", yes(reason="wrong question"), headers={"HX-Request": "true"})
    run.refresh_from_db()
    assert response["HX-Redirect"] == page_of(run)
    assert (run.status, run.error_message) == ("cancelled", "wrong question")
    entry = AuditEntry.objects.get(action="RunCancelRequested")
    assert (entry.actor, entry.session_id) == (f"user:{operator.pk}", run.conversation_id)
    assert entry.details == {"run_id": str(run.pk), "reason": "wrong question"}


def test_stopping_twice_shows_that_the_run_had_ended_and_is_audited_once(pages, make_run):
    run = make_run("queued")
    for _ in range(2):
        response = pages.post(f"{LIST}{run.pk}/cancel/", yes(), follow=True)
    assert "had already ended" in response.content.decode()
    assert AuditEntry.objects.filter(action="RunCancelRequested").count() == 1


def test_trying_again_leads_to_the_new_run_and_is_audited(pages, operator, make_run):
    run = make_run("failed")
    response = pages.post(f"{LIST}{run.pk}/retry/", yes())
    again = Run.objects.get(conversation_id=run.conversation_id, ordinal=1)
    assert response["Location"] == page_of(again)
    assert AuditEntry.objects.get(action="RunRetried").details["new_run_id"] == str(again.pk)
    assert again.actor == f"user:{operator.pk}"


def test_a_run_that_went_well_is_not_tried_again(pages, make_run):
    run = make_run("completed")
    response = pages.post(f"{LIST}{run.pk}/retry/", yes(), follow=True)
    assert "can be tried again" in response.content.decode()
    assert Run.objects.count() == 1


def test_stopping_several_needs_a_confirmation_and_shows_each_outcome(pages, make_run):
    queued, ended = make_run("queued"), make_run("completed")
    selected = {"action": "cancel_selected", "_selected_action": [str(queued.pk), str(ended.pk)]}
    assert "Stop these runs?" in pages.post(LIST, selected).content.decode()
    queued.refresh_from_db()
    assert queued.status == "queued"
    html = pages.post(LIST, {**selected, "confirmed": "yes"}, follow=True).content.decode()
    queued.refresh_from_db()
    assert queued.status == "cancelled"
    assert f"{queued.pk}</a> is being stopped." in html and f"{ended.pk}</a> had already ended." in html


def test_an_error_does_not_stop_the_retry_of_other_runs(pages, make_run):
    good, failed = make_run("completed"), make_run("failed")
    selected = {"action": "retry_selected", "_selected_action": [str(good.pk), str(failed.pk)], "confirmed": "yes"}
    html = pages.post(LIST, selected, follow=True).content.decode()
    assert "can be tried again" in html and "is retried as" in html
    assert Run.objects.filter(status="queued").count() == 1


def test_staff_who_may_only_look_cannot_stop(staff, make_run):
    run = make_run("queued")
    viewer = staff("agents_app.view_run")
    html = viewer.get(page_of(run)).content.decode()
    assert "Step 1" in html and "/cancel/" not in html
    assert viewer.post(f"{LIST}{run.pk}/cancel/", yes()).status_code == 403
    run.refresh_from_db()
    assert run.status == "queued"


def test_staff_without_the_right_see_no_runs(staff, make_run):
    run = make_run()
    without_permission = staff()
    assert without_permission.get(LIST).status_code == 403
    assert without_permission.get(page_of(run)).status_code == 403


@pytest.mark.parametrize("path", ["add/", "{pk}/delete/"])
def test_runs_are_neither_made_nor_deleted_by_hand(pages, make_run, path):
    run = make_run()
    assert pages.post(LIST + path.format(pk=run.pk), {"post": "yes"}).status_code == 403
    assert Run.objects.count() == 1 and Session.objects.count() == 1


def test_posting_a_form_to_a_run_changes_nothing(pages, make_run):
    run = make_run("running")
    assert pages.post(page_of(run), {"status": "completed"}).status_code == 403
    run.refresh_from_db()
    assert run.status == "running"
