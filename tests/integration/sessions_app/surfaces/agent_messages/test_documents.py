"""Documents that clients show and attach, files with messages, and the conversation as a file."""

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from sessions_app.attachments import uploads
from sessions_app.models import Attachment, Turn
from tests.support.agents import AgentCaller
from tests.support.documents import DAMAGED, word
from tests.support.rest import make_run, make_session, make_user
from tools_app.storage.artifacts import ArtifactView, Writer, list_artifacts, write_artifact

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent"), pytest.mark.one_database]

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


@pytest.fixture
def terms(alice: User) -> ArtifactView:
    """A file of another session of alice."""
    return write_artifact(Writer(make_session(alice).id), "out/terms.md", b"# Terms", media_type="text/markdown")


def sent_files(run_id: str) -> list[str]:
    last = Turn.objects.filter(session_id=run_id, role="user").order_by("ordinal").last()
    assert last
    return [row.filename for row in Attachment.objects.filter(turn=last).order_by("position")]


def test_documents_are_the_files_of_the_caller(caller: AgentCaller, alice: User, terms: ArtifactView) -> None:
    write_artifact(Writer(make_session(make_user("bob")).id), "out/bobs.md", b"of bob")
    found = caller("POST", "objects/search", {"limit": 10, "query": {}, "facets": []})
    (document,) = found.data["results"]
    assert (document["id"], document["name"], document["status"]) == (str(terms.id), "terms.md", "completed")
    assert caller("GET", f"objects/{terms.id}").data == document
    assert caller("GET", f"objects/{terms.id}/text").data == {"text": "# Terms"}
    assert caller("POST", "objects/search", {"offset": 1}).data["results"] == []


def test_an_upload_is_a_document_before_and_after_it_is_sent(caller: AgentCaller, alice: User) -> None:
    row = uploads.upload(alice, "note.txt", b"five")
    run = caller.start("Look at it.")
    for _ in ("unsent", "sent"):
        assert caller("GET", f"objects/{row.pk}").data["name"] == "note.txt"
        assert caller("GET", f"objects/{row.pk}/text").data == {"text": "five"}
        caller.send(run["id"], "And now?", attached_docs=[str(row.pk)])
    assert sent_files(run["id"]) == []  # it was sent once
    assert [file.path for file in list_artifacts(run["id"])] == ["files/note.txt"]


def test_a_picture_has_no_text(caller: AgentCaller, alice: User) -> None:
    picture = write_artifact(Writer(make_session(alice).id), "out/p.png", PIXEL)
    assert caller("GET", f"objects/{picture.id}/text").data == {}


def test_the_text_of_an_office_file_is_read_from_it(caller: AgentCaller, alice: User) -> None:
    session = make_session(alice)
    for data, text in {word("Dear Ada"): {"text": "Dear Ada"}, DAMAGED: {}}.items():
        letter = write_artifact(Writer(session.id), "files/letter.docx", data)
        assert caller("GET", f"objects/{letter.id}/text").data == text


def test_documents_of_others_and_unknown_ones_are_not_found(alice: User, terms: ArtifactView) -> None:
    upload = uploads.upload(alice, "note.txt", b"five")
    bob = AgentCaller(make_user("bob"))
    for name in (terms.id, upload.pk, uuid4(), "7"):
        for path in (f"objects/{name}", f"objects/{name}/text"):
            assert bob("GET", path).status == 404
    run = bob.start(f"Read [it](store:{terms.id}).")
    assert bob.send(run["id"], "Read it.", attached_docs=[str(terms.id), str(upload.pk), "7", 7]).status == 200
    assert not Attachment.objects.exclude(pk=upload.pk).exists() and not list_artifacts(run["id"])


@pytest.mark.parametrize("link", ["store:{}", "/store/objects/{}"])
def test_a_document_that_a_message_links_goes_to_the_agent(caller: AgentCaller, terms: ArtifactView, link: str) -> None:
    text = f"Read this.\n\nAttachments:\n[Terms]({link.format(terms.id)})"
    run = caller.start(text)
    assert sent_files(run["id"]) == ["terms.md"]
    assert [message["m"] for message in caller.messages(run["id"]) if message["t"] == 8] == [text]
    again = caller.start("First")["id"]
    for _ in range(2):
        assert caller.send(again, text, "m-2", attached_docs=[str(terms.id)]).status == 200
    assert sent_files(again) == ["terms.md"] and Turn.objects.filter(session_id=again, role="user").count() == 2
    assert not Attachment.objects.filter(turn=None).exists()  # copies of the repetition


def test_uploads_of_a_run_go_to_the_agent_with_the_next_message(caller: AgentCaller) -> None:
    run = caller.start("Hi")["id"]
    for number, name in enumerate(["p.png", "q.png"]):
        signed = caller("PUT", f"agents/{run}/artifacts/files/{name}").data
        assert caller("PUT", signed["url"], PIXEL + bytes([number]), Content_Type="image/png").status == 200
        file = {"id": name, "name": name, "content_type": "image/png", "artifact_path": f"files/{name}"}
        assert caller("POST", f"agents/{run}/signal/FileUploaded", file).status == 200
    caller("POST", f"agents/{run}/signal/FileRemoved", {"id": "q.png"})
    for _ in range(2):
        assert caller.send(run, "What is on it?", "m-2").status == 200
    assert sent_files(run) == ["p.png"]
    caller.send(run, "And now?", "m-3")
    assert sent_files(run) == []


def test_the_conversation_is_a_file(caller: AgentCaller, alice: User) -> None:
    run = caller.start("What is it?")["id"]
    signed = caller("GET", f"agents/{run}/artifacts/conversation.json?url=1").data
    direct = caller("GET", f"agents/{run}/artifacts/conversation.json")
    for answer in (caller("GET", signed["url"]), direct):
        assert answer.status == 200 and answer.headers["Content-Type"] == "application/json"
        assert answer.data["metadata"]["agent_run_id"] == run
        (question,) = [message for message in answer.data["messages"] if message["type"] == 8]
        assert (question["message"], question["workstream_id"]) == ("What is it?", "main")
    bob = AgentCaller(make_user("bob"))
    assert bob("GET", f"agents/{run}/artifacts/conversation.json?url=1").status == 404


def test_the_conversation_of_a_workstream_is_a_file(caller: AgentCaller, alice: User) -> None:
    session = make_session(alice)
    parent = make_run(session)
    child = make_run(session, parent=parent, workstream="news")
    posted: dict[str, Any] = {"type": 7, "message": "Calm.", "workstream_id": "news"}
    for body in (posted, {**posted, "message": "Main.", "workstream_id": ""}):
        assert caller("POST", f"agents/{session.id}/updates", body).status == 200
    signed = caller("GET", f"agents/{child.pk}/artifacts/conversation.json?url=1").data
    assert signed["path"] == f"agents/{session.id}/workstreams/news/conversation.json"
    assert [message["message"] for message in caller("GET", signed["url"]).data["messages"]] == ["Calm."]
    bob = AgentCaller(make_user("bob"))
    assert bob("GET", f"agents/{child.pk}/artifacts/conversation.json?url=1").status == 404
