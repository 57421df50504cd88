"""Odd input to the surfaces of agent runs and threads: refused in the shape of the surface, never a server error."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from sessions_app import services
from sessions_app.models import Session
from tests.support.agents import AgentCaller
from tools_app.storage import artifacts

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent"), pytest.mark.one_database]


@pytest.fixture
def caller(alice: User) -> AgentCaller:
    return AgentCaller(alice)


@pytest.fixture
def session(alice: User) -> Session:
    return services.open_session(owner=alice, title="T")


@pytest.mark.parametrize("depth", [90, 500])  # the second is within what the parser bears, and much for what follows
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("agents", b'{"interaction":"default","interactive":true,"properties":%s}'),
        ("agents/{}/signal/UserInput", b'{"message":"m","metadata":%s}'),
        ("agents/{}/updates", b'{"type":3,"message":"m","details":%s}'),
        ("workflows/runs", b'{"interaction":%s}'),
        ("/v1/threads/{}/messages", b'{"role":"USER","content":{"text":"t"},"details":%s}'),
        ("/v1/threads/{}/user_message", b'{"input_text":%s}'),
    ],
)
def test_deep_nesting(caller: AgentCaller, session: Session, path: str, body: bytes, depth: int) -> None:
    nested = b'{"a":' * depth + b"1" + b"}" * depth
    answer = caller("POST", path.format(session.id), body % nested)
    assert answer.status == 400 if depth == 500 else answer.status < 500, answer


@pytest.mark.parametrize(
    "query",
    [
        "since=0001-01-01T00:00:00%2B14:00",
        "until=9999-12-31T23:59:59-14:00",
        "since=0001-01-01",
        "since=9999-12-31",
        "id=%00",
        "interaction=%00",
        "started_by=%00",
        "cursor=%00",
        "limit=%C2%B2",
        "offset=999999999",
        "id=1",
        "id={}",
    ],
)
@pytest.mark.parametrize("path", ["agents", "agents/search"])
def test_odd_queries(caller: AgentCaller, path: str, query: str) -> None:
    assert caller("GET", f"{path}?{query}").status in (200, 400)


@pytest.mark.parametrize("name", ["a%0D%0AX-Evil: 1", "%00", "%0A", "%F0%9F%98%80", '"; x="'])
def test_odd_names_for_a_file(caller: AgentCaller, session: Session, name: str) -> None:
    artifacts.write_artifact(artifacts.Writer(session.id), "out/a.txt", b"text", media_type="text/plain")
    path = f"agents/{session.id}/artifacts/out/a.txt?filename={name}"
    for answer in (caller("GET", path), caller("GET", caller("GET", f"{path}&url=1").data["url"])):
        assert answer.status == 200 and answer.data == b"text" and "X-Evil" not in answer.headers


def test_a_text_that_a_database_does_not_take_is_refused(caller: AgentCaller, session: Session) -> None:
    target = {"target_type": "THREAD", "target_id": str(session.id), "rating": "UP"}
    assert caller("POST", "/v1/feedback", {**target, "extra_metadata": {"a": "\0"}}).status == 422
    assert caller("POST", "/v1/feedback", {**target, "extra_metadata": {"a": "b"}}).status == 201


ODD_BODIES: list[tuple[str, Any]] = [
    *(("agents/{}/updates", {"type": kind}) for kind in (1e300, 7.5, 10**400, -1)),
    ("agents/{}/updates", {"timestamp": 10**400}),
    ("workflows/runs", {"page_size": 10**400}),
    ("workflows/runs", {"start": [], "status": [1], "activity_state": {}}),
    ("workflows/runs", {"next_page_token": 3}),
    ("agents/{}/signal/FileBatchClosed", {"batch_id": "b", "file_ids": [{}], "failed_uploads": [1, {"name": []}]}),
    ("agents/{}/signal/FileUploaded", {"id": "x", "name": "n", "artifact_path": "../../etc/passwd"}),
    ("agents/{}/signal/FileUploaded", {"id": "x", "name": "n", "reference": "artifact:\0"}),
]


@pytest.mark.parametrize(("path", "body"), ODD_BODIES)
def test_odd_bodies(caller: AgentCaller, session: Session, path: str, body: Any) -> None:
    assert caller("POST", path.format(session.id), body).status in (200, 400)
