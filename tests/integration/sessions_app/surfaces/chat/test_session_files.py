"""The files of a session on the chat page: listed with their origins and updated live; those of other users never."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from sessions_app.models import Session
from sessions_app.surfaces.chat.fragments import files_frame
from sessions_app.surfaces.chat.session_files import read_files
from tests.support.engine import EngineRig
from tests.support.rest import RestCaller, make_session, make_user
from tests.support.team_script import TeamScript
from tools_app.storage.artifacts import Writer, write_artifact
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR = tmp_path


def browse(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_a_file_is_listed_with_the_call_that_wrote_it_last(rig: EngineRig) -> None:
    calls = [
        ToolCall(str(n), "write_artifact", json.dumps({"path": path, "content": "x" * n}))
        for n, path in enumerate(("out/a.md", "out/b.md", "out/a.md"), start=1)
    ]
    rig.agent(*(Reply(tool_calls=(call,)) for call in calls), Reply(("Done.",)), autonomy="full")
    run = rig.wait(rig.send().run_id)
    session = Session.objects.get()
    newest, older = read_files(session.pk)
    assert (newest.folder, newest.name, newest.size, newest.ago) == ("out", "a.md", "3 bytes", "now")
    assert [newest.call, older.call] == [run.executions[2].id, run.executions[1].id]
    page = browse(rig.owner)
    html = page.get(f"/chat/{session.pk}/files").content.decode()
    assert f'href="#call-{newest.call}"' in html and f'href="/api/artifacts/{newest.artifact.id}" download' in html
    assert page.get(f"/api/artifacts/{newest.artifact.id}").content == b"xxx"
    opened = page.get(f"/chat/{session.pk}").content.decode()
    assert '<span class="count" id="files-count">2</span>' in opened and f'id="call-{newest.call}"' in opened


def test_uploads_and_files_of_agents_show_their_origins() -> None:
    alice = make_user("alice")
    session, api = make_session(alice), RestCaller(alice)
    path = f"sessions/{session.key}/artifacts?path=files/%3Cb%3E.txt"
    assert api.post(path, b"one", Content_Type="text/plain").status == 400
    path = f"sessions/{session.key}/artifacts?path=files/a%26b.txt"
    puts = ((b"one", ""), (b"two", ""), (b"one", ""), (b"three", "&replace=true"))
    put = [api.post(f"{path}{more}", data, Content_Type="text/plain").data["path"] for data, more in puts]
    assert put == ["files/a&b.txt", "files/a&b (2).txt", "files/a&b.txt", "files/a&b.txt"]
    frame = files_frame(read_files(session.pk))
    assert frame["do"] == "files" and frame["html"].count("Uploaded") == 2
    assert "<bdi>a&amp;b (2).txt</bdi>" in frame["html"]


def test_a_session_without_files_has_an_empty_state_and_anothers_is_not_found() -> None:
    alice, bob = make_user("alice"), make_user("bob")
    session = make_session(alice)
    write_artifact(Writer(make_session(bob).pk), "files/a.txt", b"x")
    assert "There are no files yet" in browse(alice).get(f"/chat/{session.pk}/files").content.decode()
    assert browse(bob).get(f"/chat/{session.pk}/files").status_code == 404
    assert Client().get(f"/chat/{session.pk}/files").status_code == 302


def test_files_of_a_workstream_are_listed_under_its_name(rig: EngineRig) -> None:
    launch = ToolCall("1", "launch_workstream", json.dumps({"id": "a", "instruction": "Write", "name": "Prices"}))
    wrote = ToolCall("2", "write_artifact", json.dumps({"path": "out/deep/a.md", "content": "x"}))
    rig.agent(Reply(), tool_profile="teams", autonomy="full")
    ScriptedProvider.scripts["script"] = TeamScript(
        [Reply(tool_calls=(launch,)), Reply(("Waiting.",)), Reply(("Done.",))],
        {"Prices": [Reply(tool_calls=(wrote,)), Reply(("Written.",))]},
    )
    rig.wait(rig.send().run_id)
    (file,) = read_files(Session.objects.get().pk)
    assert (file.folder, file.name) == ("Prices › out/deep", "a.md")
