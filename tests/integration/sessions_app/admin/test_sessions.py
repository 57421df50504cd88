"""Sessions and tool executions in the admin: the conversation."""

import pytest
from django.utils import timezone

from sessions_app.models import Session, Turn
from tools_app.models import ToolExecution

pytestmark = pytest.mark.one_database

SESSIONS = "/admin/sessions_app/session/"
EXECUTIONS = "/admin/tools_app/toolexecution/"


def test_a_session_reads_as_a_conversation(pages, make_run):
    run = make_run("failed")
    Turn.objects.create(
        session_id=run.conversation_id,
        run=run,
        ordinal=0,
        part=1,
        role="assistant",
        content="Let me see.",
        tool_calls=[{"id": "c", "name": "calculator", "arguments": "{}"}],
        created_at=timezone.now(),
    )
    Turn.objects.create(
        session_id=run.conversation_id,
        run=run,
        ordinal=0,
        part=2,
        role="assistant",
        state="error",
        error_code="model_auth",
        error_message="The key was refused.",
        created_at=timezone.now(),
    )
    html = pages.get(f"{SESSIONS}{run.conversation_id}/change/").content.decode()
    positions = [
        html.index(text) for text in ("17 times 23?</div>", "Let me see.", "calculator", "The key was refused.")
    ]
    assert positions == sorted(positions)


def test_a_long_session_opens_on_its_newest_turns_and_leads_to_older_ones(
    pages, make_run, django_assert_max_num_queries
):
    run = make_run()
    Turn.objects.bulk_create(
        Turn(
            session_id=run.conversation_id,
            ordinal=n,
            part=0,
            role="user",
            content=f"word-{n}.",
            created_at=timezone.now(),
        )
        for n in range(1, 121)
    )
    with django_assert_max_num_queries(8):
        html = pages.get(f"{SESSIONS}{run.conversation_id}/change/").content.decode()
    assert "word-120." in html and "word-71." in html and "word-70." not in html
    older = pages.get(f"{SESSIONS}{run.conversation_id}/change/", {"before": "71.0"}).content.decode()
    assert "word-70." in older and "word-71." not in older and "Newest messages" in older


def test_a_nonsense_place_shows_the_newest_turns(pages, make_run):
    run = make_run()
    html = pages.get(f"{SESSIONS}{run.conversation_id}/change/", {"before": "a.b"}).content.decode()
    assert "17 times 23?" in html


def test_an_open_run_of_the_session_is_linked(pages, make_run):
    run = make_run("waiting", waiting_on="tools")
    html = pages.get(f"{SESSIONS}{run.conversation_id}/change/").content.decode()
    assert "A run is waiting on tools" in html and str(run.pk) in html


def test_sessions_are_found_by_title_owner_and_id(pages, operator, make_run):
    run = make_run(text="about zebras")
    make_run(text="about ants")
    for term, count in [("zebras", 1), (operator.username, 2), (str(run.conversation_id), 1), ("nobody", 0)]:
        assert pages.get(SESSIONS, {"q": term}).content.decode().count('class="field-name') == count, term


def test_the_list_of_sessions_costs_a_fixed_number_of_queries(pages, make_run, django_assert_max_num_queries):
    for _ in range(10):
        make_run()
    with django_assert_max_num_queries(7):
        pages.get(SESSIONS)


def test_sessions_are_not_edited(pages, make_run):
    session = Session.objects.get(pk=make_run().conversation_id)
    assert pages.post(f"{SESSIONS}{session.pk}/change/", {"channel": "Slack"}).status_code == 403
    assert pages.post(f"{SESSIONS}{session.pk}/delete/", {"post": "yes"}).status_code == 403
    assert Session.objects.get(pk=session.pk).channel == "WebChat"


def test_an_execution_shows_arguments_result_and_its_run(pages, make_run):
    run = make_run()
    execution = ToolExecution.objects.get(run_id=run.pk)
    html = pages.get(f"{EXECUTIONS}{execution.pk}/change/").content.decode()
    assert "17*23" in html and "391" in html and f"/admin/agents_app/run/{run.pk}/change/" in html
    assert "/stop/" not in html


def test_an_open_execution_is_stopped_once(pages, make_run):
    run = make_run("waiting", waiting_on="tools")
    execution = ToolExecution.objects.get(run_id=run.pk)
    ToolExecution.objects.filter(pk=execution.pk).update(
        status="Pending", completed_at=None, started_at=None, output=None
    )
    assert "/stop/" in pages.get(f"{EXECUTIONS}{execution.pk}/change/").content.decode()
    pages.post(f"{EXECUTIONS}{execution.pk}/stop/", {"_form_submitted": "True"})
    execution.refresh_from_db()
    assert execution.status == "Cancelled"
    again = pages.post(f"{EXECUTIONS}{execution.pk}/stop/", {"_form_submitted": "True"}, follow=True)
    assert "had already ended" in again.content.decode()


def test_viewers_cannot_stop_executions(staff, make_run):
    execution = ToolExecution.objects.get(run_id=make_run("waiting").pk)
    viewer = staff("tools_app.view_toolexecution")
    assert viewer.post(f"{EXECUTIONS}{execution.pk}/stop/", {"_form_submitted": "True"}).status_code == 403
