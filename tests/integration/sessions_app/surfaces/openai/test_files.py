"""Files that are uploaded once: limits, access, time, and the parts of messages that name them."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from audit_app import retention
from audit_app.kernel.errors import InvalidInput, NotFound
from sessions_app.attachments import user_files
from sessions_app.conversation.history import StoredConversations
from sessions_app.identity.api_keys import create_api_key
from sessions_app.identity.principal import Principal
from sessions_app.integrity_checks import find_violations
from sessions_app.models import UserFile
from sessions_app.surfaces.openai import commands, files
from sessions_app.surfaces.openai.item_references import resolve_references
from sessions_app.surfaces.openai.requests import read_completion, read_response
from tests.support.rest import make_agent, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


@pytest.fixture
def user(valkey: object, settings: Any, tmp_path: Path) -> User:
    settings.DATA_DIR = tmp_path
    make_agent()
    return make_user("ada")


class Caller:
    """A client with an API key of a user."""

    def __init__(self, user: User) -> None:
        self._client = Client(raise_request_exception=False)
        self._headers = {"Authorization": f"Bearer {create_api_key(user, 'k', scopes=['openai']).key}"}

    def get(self, path: str) -> Any:
        return self._client.get(f"/v1/files{path}", headers=self._headers)

    def delete(self, path: str) -> Any:
        return self._client.delete(f"/v1/files{path}", headers=self._headers)

    def upload(self, data: bytes = b"The word is heron.", name: str = "notes.txt", **fields: str) -> Any:
        form = {"purpose": "user_data", **fields, "file": SimpleUploadedFile(name, data)}
        return self._client.post("/v1/files", form, headers=self._headers)


def refusal(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_a_file_is_uploaded_listed_read_and_deleted(user: User, tmp_path: Path) -> None:
    caller = Caller(user)
    first, second = caller.upload().json(), caller.upload(PNG, "..\\a.png", purpose="vision").json()
    assert (first["filename"], first["bytes"], first["purpose"]) == ("notes.txt", 18, "user_data")
    assert first["expires_at"] - first["created_at"] == 30 * 86_400 and second["filename"] == "a.png"
    listed = caller.get("").json()
    assert [file["id"] for file in listed["data"]] == [second["id"], first["id"]] and not listed["has_more"]
    page = caller.get("?limit=1&order=asc").json()
    assert (page["last_id"], page["has_more"]) == (first["id"], True)
    following = caller.get(f"?order=asc&after={page['last_id']}").json()["data"]
    assert following == caller.get("?purpose=vision").json()["data"] == [second]
    assert caller.get(f"/{first['id']}").json() == first
    content = caller.get(f"/{first['id']}/content")
    assert content.content == b"The word is heron." and content.headers["Content-Disposition"].startswith("attachment")
    [stored] = [path for path in (tmp_path / "attachments").rglob("*-*") if path.read_bytes() == content.content]
    assert caller.delete(f"/{first['id']}").json() == {"id": first["id"], "object": "file", "deleted": True}
    assert not stored.exists() and refusal(caller.get(f"/{first['id']}")) == (404, "file_not_found")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"purpose": "fine-tune"}, "unsupported_purpose"),
        ({"purpose": ""}, "missing_required_parameter"),
        ({"name": "a.exe", "data": b"MZ\x00"}, "unsupported_file_type"),
        ({"data": b""}, "empty_file"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "10"}, "invalid_value"),
        ({"expires_after[seconds]": "3600"}, "invalid_value"),
    ],
)
def test_a_file_that_cannot_be_kept_is_refused(user: User, fields: dict[str, Any], code: str) -> None:
    assert refusal(Caller(user).upload(**fields)) == (400, code)
    assert not UserFile.objects.exists()


def test_a_body_without_a_form_or_a_file_is_refused(user: User) -> None:
    caller = Caller(user)
    headers = caller._headers
    assert caller._client.post("/v1/files", {"purpose": "vision"}, headers=headers).json()["error"]["code"] == "no_file"
    sent = {"content_type": "multipart/form-data; boundary=x", "headers": headers}
    assert refusal(caller._client.post("/v1/files", b"--y", **sent))[0] == 400
    assert caller._client.post("/v1/files", "{}", content_type="application/json", headers=headers).status_code == 415
    empty = caller._client.generic("POST", "/v1/files", headers=headers)
    assert refusal(empty) == (400, "no_file")


def test_the_files_of_a_user_are_limited(user: User, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    caller, settings.KOMAND_ARTIFACTS_MAX_BYTES = Caller(user), 30
    assert caller.upload(b"a" * 20).status_code == 200
    assert refusal(caller.upload(b"a" * 20)) == (400, "too_many_files")
    assert Caller(make_user("eve")).upload(b"a" * 20).status_code == 200
    monkeypatch.setattr(user_files, "MOST_FILES", 1)
    assert refusal(caller.upload(b"a")) == (400, "too_many_files")
    settings.KOMAND_ARTIFACT_MAX_BYTES = 10
    assert caller.upload(b"a" * 11).status_code == 413


def test_a_file_of_another_user_is_not_found(user: User) -> None:
    file_id, eve = Caller(user).upload().json()["id"], Caller(make_user("eve"))
    for answer in (eve.get(f"/{file_id}"), eve.get(f"/{file_id}/content"), eve.delete(f"/{file_id}")):
        assert refusal(answer) == (404, "file_not_found")
    assert refusal(eve.get(f"?after={file_id}")) == (404, "file_not_found") and eve.get("").json()["data"] == []
    assert refusal(eve.get("/file-nothing")) == refusal(eve.get(f"/{uuid4()}")) == (404, "file_not_found")
    for name, part in PARTS.items():
        with pytest.raises(NotFound, match="no file"):
            _with_contents(eve_user(), name, part(file_id))


def eve_user() -> User:
    return User.objects.get(username="eve")


def test_files_are_deleted_when_they_expire(user: User, tmp_path: Path) -> None:
    caller = Caller(user)
    after = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    short, long = caller.upload(**after).json(), caller.upload().json()
    assert short["expires_at"] - short["created_at"] == 3600
    UserFile.objects.filter(expires_at__lt=timezone.now() + timedelta(hours=2)).update(expires_at=timezone.now())
    assert refusal(caller.get(f"/{short['id']}")) == (404, "file_not_found")
    [rule] = [rule for rule in retention.list_rules() if rule.name == "files that users keep"]
    assert (rule.count(), rule.prune(100), rule.count()) == (1, 1, 0)
    assert [file["id"] for file in caller.get("").json()["data"]] == [long["id"]]
    assert len(list((tmp_path / "attachments").rglob("*-*"))) == 1 and not find_violations()
    next((tmp_path / "attachments").rglob("*-*")).unlink()
    assert [violation.number for violation in find_violations()] == [11]
    assert refusal(caller.get(f"/{long['id']}/content")) == (404, "file_not_found")


PARTS: dict[str, Any] = {
    "messages": lambda file_id: {"type": "file", "file": {"file_id": file_id}},
    "input": lambda file_id: {"type": "input_file", "file_id": file_id},
}


def _with_contents(user: User, name: str, *parts: Any) -> Any:
    body = {"model": "default", name: [{"role": "user", "content": [*parts, {"type": "input_text", "text": "Read."}]}]}
    resolve = files.with_contents if name == "messages" else lambda user, body, _: resolve_references(user, body)
    return resolve(user, json.loads(json.dumps(body)), name)


@pytest.mark.parametrize("name", ["messages", "input"])
def test_a_file_is_named_in_several_messages(user: User, name: str) -> None:
    file_id = Caller(user).upload().json()["id"]
    for _ in range(2):
        body = _with_contents(user, name, PARTS[name](file_id))
        parsed = read_completion(body) if name == "messages" else read_response(body)
        accepted = commands.accept(Principal(user, "jwt"), parsed, "")
        [message] = StoredConversations().user_turns(accepted.run_id)
        assert "files/notes.txt" in message.content and "The word is heron." in message.content
    user_files.delete(UserFile.objects.get())
    assert "The word is heron." in StoredConversations().user_turns(accepted.run_id)[0].content


def test_an_image_is_named_by_its_file(user: User) -> None:
    file_id = Caller(user).upload(PNG, "red.png").json()["id"]
    parsed = read_response(_with_contents(user, "input", {"type": "input_image", "file_id": file_id}))
    accepted = commands.accept(Principal(user, "jwt"), parsed, "")
    [message] = StoredConversations().user_turns(accepted.run_id)
    assert [(part.kind, part.name) for part in message.parts] == [("image", "red.png")]
    assert StoredConversations().load_part(message.parts[0].reference) == PNG


def test_the_files_of_a_request_are_limited_together(user: User, settings: Any) -> None:
    file_id = Caller(user).upload().json()["id"]
    settings.KOMAND_ARTIFACT_MAX_BYTES = 40
    _with_contents(user, "input", *[PARTS["input"](file_id)] * 2)
    with pytest.raises(InvalidInput, match="together"):
        _with_contents(user, "input", *[PARTS["input"](file_id)] * 3)


def test_a_request_that_names_no_file_costs_nothing(user: User, django_assert_num_queries: Any) -> None:
    body = {"model": "default", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, 7]}, 7]}
    with django_assert_num_queries(0):
        assert files.with_contents(user, body, "messages") is body
