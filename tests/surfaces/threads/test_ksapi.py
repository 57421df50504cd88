"""The real `ksapi` client against the whole of Komand: threads, messages, streams, jobs, feedback, keys, questions."""

import json
import re
from uuid import UUID, uuid4

import httpx2
import ksapi
import pytest

from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand, wait_for
from tests.surfaces.threads.ksapi_client import Client, names, read_events, text_of


@pytest.fixture(scope="module")
def client(live_komand: LiveKomand) -> Client:
    return Client(live_komand.url, access_token=live_komand.api_key)


@pytest.fixture(scope="module")
def signed_in(live_komand: LiveKomand) -> Client:
    """Return a client with the cookie of a sign-in."""
    anonymous = ksapi.AuthApi(Client(live_komand.url).api)
    signed = anonymous.pw_signin_with_http_info(ksapi.SignInRequest(username="admin", password=live_komand.password))
    assert signed.data.current_tenant_role == ksapi.TenantUserRole.OWNER
    found = re.search(r"ks_uat=[^;]+", str(signed.headers))
    assert found
    cookie = found[0]
    return Client(live_komand.url, api_key={"cookieAuth": cookie})


def test_a_thread_stores_the_answer_that_it_streamed(client: Client) -> None:
    thread = client.open("Sums")
    sent = client.send(thread, "what is 17*23?")
    assert sent.workflow_id == f"agent-{thread.id}"
    events = client.stream(thread)
    assert names(events)[0] == "message_start" and names(events)[-2:] == ["message_end", "[DONE]"]
    assert {"step", "text_start", "text_delta", "text_end"} <= set(names(events))
    page = client.messages.list_thread_messages(thread.id, sort_dir="ASC")
    assert [message.role.value for message in page.items] == ["USER", "ASSISTANT"]
    asked, answer = page.items
    assert asked.id == sent.user_message_id and asked.sequence < answer.sequence
    assert "391" in answer.content.text and answer.content.text.strip() == text_of(events).strip()
    assert str(answer.id) == events[0][2]["id"] and answer.details.usage.output_tokens > 0
    kinds = [part.actual_instance.kind for part in answer.details.parts]
    assert kinds == ["tool", "text"] and answer.details.steps[0].name == "calculator"
    streamed_parts = {data["part_id"] for _, name, data in events if name == "text_start"}
    assert {
        part.actual_instance.id for part in answer.details.parts if part.actual_instance.kind == "text"
    } == streamed_parts
    assert client.messages.get_thread_message(thread.id, answer.id).content.text == answer.content.text


def test_a_stream_may_be_opened_before_the_message_is_sent(client: Client, live_komand: LiveKomand) -> None:
    thread = client.open()
    headers = {"Authorization": f"Bearer {client.api.configuration.access_token}"}
    url = f"{live_komand.url}/v1/threads/{thread.id}/stream"
    with httpx2.stream("GET", url, headers=headers, timeout=14) as answer:  # the first keep-alive comment takes 15
        client.send(thread, "echo hello")
        events = list(read_events(iter(answer.iter_lines()))) or []
    assert names(events)[0] == "message_start" and names(events)[-1] == "[DONE]"


def test_an_ended_answer_is_streamed_once_to_a_late_client(client: Client) -> None:
    thread = client.open()
    client.send(thread, "echo late")
    wait_for(lambda: client.jobs.get_temporal_workflow_status(f"agent-{thread.id}").temporal_status == "COMPLETED")
    assert names(client.stream(thread))[-1] == "[DONE]"


def test_the_generated_stream_call_returns(client: Client) -> None:
    thread = client.open()
    client.send(thread, "echo hello")
    assert client.threads.stream_thread(thread.id, _request_timeout=30) is None


def test_threads_are_changed_listed_and_deleted(client: Client) -> None:
    thread = client.threads.create_thread(ksapi.CreateThreadRequest(message_for_title="Plans for\nthe garden"))
    assert thread.title == "Plans for"
    child = client.open("Child")
    changed = client.threads.update_thread(
        child.id, ksapi.UpdateThreadRequest(title="Roses", parent_thread_id=thread.id)
    )
    assert (changed.title, changed.parent_thread_id) == ("Roses", thread.id)
    page = client.threads.list_threads(title_like="ROSE", created_after=child.created_at, limit=5)
    assert [found.id for found in page.items] == [child.id] and page.total == 1
    client.threads.delete_thread(child.id)
    with pytest.raises(ksapi.exceptions.NotFoundException):
        client.threads.get_thread(child.id)


def test_a_posted_message_is_stored_once_and_starts_no_run(client: Client) -> None:
    thread, message_id = client.open(), uuid4()
    request = ksapi.CreateThreadMessageRequest(
        message_id=message_id, role=ksapi.MessageRole.ASSISTANT, content=ksapi.ThreadMessageContent(text="I said so.")
    )
    first = client.messages.create_thread_message(thread.id, request)
    again = client.messages.create_thread_message(thread.id, request)
    assert first.id == again.id == message_id
    assert client.messages.list_thread_messages(thread.id).total == 1


def test_a_dropped_stream_is_resumed_without_gap_or_duplicate(client: Client, model_server: ModelServer) -> None:
    thread = client.open()
    client.send(thread, "[[tokens=40 rate=100 hold=20]]")
    first = client.stream(thread, until=4)
    place = [entry for entry, _, _ in first if entry][-1]
    rest = client.stream(
        thread, meanwhile=model_server.go_on, last_message_id=UUID(first[0][2]["id"]), last_entry_id=place
    )
    assert "replay_complete" in names(rest) and names(rest)[-1] == "[DONE]"
    (answer,) = client.messages.list_thread_messages(thread.id, role=ksapi.MessageRole.ASSISTANT).items
    assert text_of([*first, *rest]).strip() == answer.content.text
    assert len(answer.content.text.split()) == 40
    gone = client.stream(thread, last_message_id=answer.id, last_entry_id=place)
    assert [(name, data["message_id"]) for _, name, data in gone] == [("message_not_streaming", str(answer.id))]


def test_a_busy_thread_refuses_and_can_be_cancelled(client: Client) -> None:
    thread = client.open()
    client.send(thread, "[[tokens=400 rate=20]]")
    job = f"agent-{thread.id}"
    wait_for(lambda: client.jobs.get_temporal_workflow_status(job).temporal_status == "RUNNING")
    with pytest.raises(ksapi.exceptions.ConflictException) as refused:
        client.send(thread, "and this?")
    assert json.loads(refused.value.body)["code"] == "run_busy"
    client.stream(thread, until=4)
    client.jobs.cancel_temporal_workflow(job)
    events = client.stream(thread)
    assert events[-2][2]["status"] == "canceled" and events[-1][2] == "[DONE]"
    assert client.jobs.get_temporal_workflow_status(job).temporal_status == "CANCELED"
    assert "already ended" in client.jobs.cancel_temporal_workflow(job).message


def test_a_message_is_idempotent_under_its_key(client: Client) -> None:
    thread, key = client.open(), {"Idempotency-Key": uuid4().hex}
    first = client.send(thread, "echo once", **key)
    assert client.send(thread, "echo once", **key).user_message_id == first.user_message_id
    with pytest.raises(ksapi.exceptions.UnprocessableEntityException):
        client.send(thread, "echo something else", **key)


def test_a_failing_tool_is_an_error_of_its_step(client: Client) -> None:
    thread = client.open()
    client.send(thread, '[[tool=calculator args={"expression":"1/0"}]]')
    steps = [data for _, name, data in client.stream(thread) if name == "step"]
    assert steps[-1]["status"] == "error" and steps[-1]["detail"]
    (answer,) = client.messages.list_thread_messages(thread.id, role=ksapi.MessageRole.ASSISTANT).items
    tool = next(part.actual_instance for part in answer.details.parts if part.actual_instance.kind == "tool")
    assert tool.status == ksapi.ToolStatus.ERROR and tool.is_error


def test_a_failing_model_leaves_a_message_with_the_error(client: Client) -> None:
    thread = client.open()
    client.send(thread, "[[status=400]]")
    events = client.stream(thread)
    assert names(events)[-3:] == ["error", "message_end", "[DONE]"]
    (answer,) = client.messages.list_thread_messages(thread.id, role=ksapi.MessageRole.ASSISTANT).items
    assert answer.content.is_error and answer.content.text


def test_a_call_that_requires_approval_is_a_waiting_step(client: Client, live_komand: LiveKomand) -> None:
    thread = client.open()
    client.send(thread, '[[tool=write_artifact args={"path":"files/a.txt","content":"x"}]]')
    headers = {"Authorization": f"Bearer {client.api.configuration.access_token}"}
    url = f"{live_komand.url}/v1/threads/{thread.id}/stream"
    events = []
    with httpx2.stream("GET", url, headers=headers, timeout=30) as answer:
        for event in read_events(iter(answer.iter_lines())):
            events.append(event)
            if approval := event[2] != "[DONE]" and event[2].get("approval"):
                decide = f"{live_komand.url}/api/approvals/{approval['approval_id']}/decide"
                httpx2.post(decide, json={"decision": "allow_once"}, headers=headers).raise_for_status()
    statuses = [data["status"] for _, name, data in events if name == "step"]
    assert statuses[0] == "running" and statuses[-1] == "success"
    assert any("approval" in data for _, name, data in events if name == "step")


def test_ask_and_extract_answer_in_the_response(client: Client) -> None:
    asked = client.agent.agent_ask(ksapi.AskRequest(prompt="what is 17*23?"), _request_timeout=30)
    assert "391" in asked.text
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    prompt = '[[text="{\\"n\\": 3}"]]'
    found = client.agent.agent_extract(ksapi.ExtractRequest(prompt=prompt, output_schema=schema), _request_timeout=30)
    assert found.structured == {"n": 3}
    with pytest.raises(ksapi.exceptions.BadRequestException):
        client.agent.agent_extract(ksapi.ExtractRequest(prompt="x", output_schema={"type": 7}))
    with pytest.raises(ksapi.exceptions.ServiceException):
        client.agent.agent_ask(ksapi.AskRequest(prompt="[[status=400]]"), _request_timeout=30)


def test_feedback_is_one_rating_per_user_and_target(client: Client) -> None:
    thread = client.open()
    client.send(thread, "echo rate me")
    message_id = client.stream(thread)[0][2]["id"]
    request = ksapi.SubmitFeedbackRequest(
        target_type=ksapi.FeedbackTargetType.MESSAGE, target_id=UUID(message_id), rating=ksapi.FeedbackRating.UP
    )
    first = client.feedback.submit_feedback_with_http_info(request)
    again = client.feedback.submit_feedback_with_http_info(request.model_copy(update={"comment": "Well said."}))
    assert (first.status_code, again.status_code) == (201, 200)
    page = client.feedback.list_feedback(target_id=[UUID(message_id)], mine=True)
    assert [found.comment for found in page.items] == ["Well said."]
    client.feedback.delete_feedback(first.data.id)
    assert client.feedback.list_feedback(target_id=[UUID(message_id)]).total == 0


def test_keys_are_created_by_users_who_signed_in(client: Client, signed_in: Client, live_komand: LiveKomand) -> None:
    made = signed_in.keys.create_api_key(ksapi.CreateApiKeyRequest(name="laptop"))
    assert made.key.startswith("sk-user-") and made.key.endswith(made.key_suffix)
    assert Client(live_komand.url, access_token=made.key).threads.list_threads(limit=1).limit == 1
    assert made.id in [key.id for key in signed_in.keys.list_api_keys()]
    signed_in.keys.delete_api_key(made.id)
    with pytest.raises(ksapi.exceptions.NotFoundException):
        signed_in.keys.get_api_key(made.id)
    _, _, cookie = signed_in.api.configuration.api_key["cookieAuth"].partition("=")
    bare = Client(live_komand.url, api_key={"cookieAuth": cookie})
    assert bare.keys.list_api_keys() == signed_in.keys.list_api_keys()
    with pytest.raises(ksapi.exceptions.UnauthorizedException):
        client.keys.list_api_keys()


def test_the_other_calls_of_the_client_are_answered(client: Client) -> None:
    assert ksapi.DefaultApi(client.api).health_check().status == "healthy"
    assert ksapi.UsersApi(client.api).get_me().email == "admin@localhost"
    assert ksapi.AuditEventsApi(client.api).list_audit_events(limit=3).items
    thread = client.open()
    client.send(thread, "what is 2+2?")
    client.stream(thread)
    found = ksapi.DiagnosticsApi(client.api).compute_thread_diagnostics(thread.id)
    assert found.final and found.traces[0].tool_calls == 1


def test_a_crash_within_an_answer_ends_with_the_stored_text(
    client: Client, live_komand: LiveKomand, model_server: ModelServer
) -> None:
    thread = client.open()
    model_server.script("tokens=60 rate=100 hang=20")  # the first attempt; the second goes by the message
    client.send(thread, "[[tokens=60]]")
    first = client.stream(thread, until=4)
    killed = live_komand.kill_runs()
    rest = client.stream(
        thread, last_message_id=UUID(first[0][2]["id"]), last_entry_id=[entry for entry, _, _ in first if entry][-1]
    )
    live_komand.wait_healthy("runs-1", other_than=killed)
    (answer,) = client.messages.list_thread_messages(thread.id, role=ksapi.MessageRole.ASSISTANT).items
    assert text_of([*first, *rest]).strip() == answer.content.text and len(answer.content.text.split()) == 60


def test_another_protocol_sees_the_same_text(client: Client, live_komand: LiveKomand) -> None:
    thread = client.open()
    client.send(thread, "echo both of us")
    text = text_of(client.stream(thread))
    headers = {"Authorization": f"Bearer {client.api.configuration.access_token}"}
    history = httpx2.get(f"{live_komand.url}/api/sessions/{thread.id}/history", headers=headers).json()
    assert history["data"][-1]["content"].strip() == text.strip()


def test_a_source_is_cited_in_the_stream_and_in_the_message(client: Client, model_server: ModelServer) -> None:
    thread = client.open()
    client.send(thread, f'[[tool=web_fetch args={{"url":"{model_server.base_url}/models"}}]]')
    client.stream(thread)
    (found,) = client.messages.list_thread_messages(thread.id, role=ksapi.MessageRole.ASSISTANT).items
    (source,) = found.details.parts[0].actual_instance.result["sources"]
    client.send(thread, f'[[text="So it is [{source["cite"]}]."]]')
    citations = next(data["citations"] for _, name, data in client.stream(thread) if name == "citations")
    answer = client.messages.list_thread_messages(thread.id, role=ksapi.MessageRole.ASSISTANT, sort_dir="DESC").items[0]
    assert [citation["chunk_id"] for citation in citations] == [source["cite"]]
    assert [str(citation.chunk_id) for citation in answer.content.citations] == [source["cite"]]
    assert citations[0]["materialized_path"] == source["uri"] and citations[0]["quote"] == source["quote"]


@pytest.mark.parametrize("path", ["threads/not-a-thread", "users/nothing", "system-jobs/agent-nothing"])
def test_errors_are_those_of_the_protocol(client: Client, live_komand: LiveKomand, path: str) -> None:
    headers = {"Authorization": f"Bearer {client.api.configuration.access_token}"}
    answer = httpx2.get(f"{live_komand.url}/v1/{path}", headers=headers)
    error = ksapi.ErrorResponse.from_dict(answer.json())
    assert answer.status_code == 404 and error is not None and error.code == "not_found"
    assert error.request_id == answer.headers["x-request-id"]


def test_paths_of_the_openai_protocol_keep_its_errors(live_komand: LiveKomand, model_server: ModelServer) -> None:
    assert "error" in httpx2.get(f"{live_komand.url}/v1/models").json()
    assert httpx2.get(f"{live_komand.url}/v1/threads").json()["code"] == "unauthorized"
