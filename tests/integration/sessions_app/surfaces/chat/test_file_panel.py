"""The panel of a file: previews by type, versions, frames of an opaque origin, the archive; nothing for other users."""

import asyncio
import base64
import json
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4
from zipfile import ZipFile

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents_app.providers.kinds.scripted import Reply
from sessions_app.models import Session
from sessions_app.surfaces.chat.file_archive import Entry, entries_of, stream_archive
from sessions_app.surfaces.chat.file_previews import MOST_COLUMNS, MOST_ROWS, File, Kind, preview_of
from sessions_app.surfaces.chat.session_files import archive_path, read_files, shown_folder
from tests.support.engine import EngineRig
from tests.support.rest import make_session, make_user
from tools_app.storage.artifacts import ArtifactView, Writer, delete_artifact, write_artifact
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
PAGE = b"<!doctype html><p>hello<script>1</script>"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR = tmp_path


@pytest.fixture
def alice() -> User:
    return make_user("alice")


@pytest.fixture
def browser(alice: User) -> Client:
    client = Client()
    client.force_login(alice)
    return client


@pytest.fixture
def session(alice: User) -> Session:
    return make_session(alice)


def store(session: Session, path: str, data: bytes) -> ArtifactView:
    return write_artifact(Writer(session.pk), path, data)


def test_each_type_has_its_preview(browser: Client, session: Session) -> None:
    shown = {
        "files/a.md": (b"# Title\n\n<script>alert(1)</script>", "<h3"),
        "files/a.py": (b"def f():\n    return 1 < 2", 'class="c-k"'),
        "files/a.csv": ("näme;b\nx;2".encode(), '<th scope="col" dir="auto">näme</th>'),
        "files/a.png": (PNG, '<img src="'),
        "files/a.html": (PAGE, 'sandbox="allow-scripts"'),
        "files/a.svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 'sandbox="allow-scripts"'),
        "files/a.pdf": (b"%PDF-1.4 ...", "<iframe"),
        "files/a.bin": (b"\xff\xfe\x00", "has no preview"),
        "files/empty.txt": (b"", "The file is empty"),
    }
    for path, (data, expected) in shown.items():
        html = browser.get(f"/chat/files/{store(session, path, data).id}").content.decode()
        assert expected in html and "<script" not in html, path
    source = browser.get(f"/chat/files/{store(session, 'files/b.html', PAGE).id}?source").content.decode()
    assert "&lt;" in source and "<iframe" not in source and 'aria-pressed="true"' in source
    by_path = browser.get(f"/chat/{session.pk}/file?path=files/a.md").content.decode()
    assert "<h3" in by_path and browser.get(f"/chat/{session.pk}/file?path=files/no.md").status_code == 404
    assert browser.get(f"/chat/{session.pk}/file").status_code == 400


def test_a_page_is_served_with_an_opaque_origin_and_nothing_else_is(browser: Client, session: Session) -> None:
    for name, data, media_type in (
        ("files/a.html", PAGE, "text/html; charset=utf-8"),
        ("files/a.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml; charset=utf-8"),
    ):
        url = f"/chat/files/{store(session, name, data).id}/frame"
        answer = browser.get(url, headers={"Sec-Fetch-Dest": "iframe"})
        policy = answer.headers["Content-Security-Policy"].split("; ")
        assert {"sandbox allow-scripts", "default-src 'none'", "frame-ancestors 'self'"} <= set(policy)
        assert not any("allow-same-origin" in each or each.startswith("connect-src") for each in policy)
        assert answer.headers["Content-Type"] == media_type and answer.headers["X-Frame-Options"] == "SAMEORIGIN"
        assert answer.headers["X-Content-Type-Options"] == "nosniff" and "no-store" in answer.headers["Cache-Control"]
        opened = browser.get(url, headers={"Sec-Fetch-Dest": "document"})
        assert opened.headers["Content-Disposition"].startswith("attachment")
    for name, data in (("files/b.txt", PAGE), ("files/b.png", PNG), ("files/fake.pdf", PAGE), ("files/x.html", PNG)):
        plain = browser.get(f"/chat/files/{store(session, name, data).id}/frame")
        assert plain.headers["Content-Disposition"].startswith("attachment"), name
    pdf = browser.get(f"/chat/files/{store(session, 'files/a.html', b'%PDF-1.4 <script>').id}/frame")
    assert pdf.headers["Content-Type"] == "application/pdf"


def test_files_of_others_are_not_found(session: Session, browser: Client) -> None:
    theirs = store(make_session(make_user("bob")), "files/a.html", PAGE)
    for path in ("", "/content", "/frame"):
        assert browser.get(f"/chat/files/{theirs.id}{path}").status_code == 404
        assert browser.get(f"/chat/files/{uuid4()}{path}").status_code == 404
        assert Client().get(f"/chat/files/{theirs.id}{path}").status_code == 302
    for path in ("files.zip", "file?path=files/a.html"):
        assert browser.get(f"/chat/{theirs.session_id}/{path}").status_code == 404
    assert browser.get(f"/chat/{session.pk}/files.zip").status_code == 404, "it has no files"


def test_earlier_versions_are_what_calls_have_written(rig: EngineRig) -> None:
    texts = ["one", "two", "two", base64.b64encode(b"three").decode()]
    calls = [
        ToolCall(str(n), "write_artifact", json.dumps({"path": "out/a.md", "content": text, "encoding": encoding}))
        for n, (text, encoding) in enumerate(zip(texts, ["text", "text", "text", "base64"], strict=True))
    ]
    rig.agent(*(Reply(tool_calls=(call,)) for call in calls), Reply(("Done.",)), autonomy="full")
    run = rig.wait(rig.send().run_id)
    browser, session = Client(), Session.objects.get()
    browser.force_login(rig.owner)
    [entry] = read_files(session.pk)
    url = f"/chat/files/{entry.artifact.id}"
    html = browser.get(url).content.decode()
    assert all(f"Version {number} · now" in html for number in (1, 2, 3)) and "Version 4" not in html
    first, second, again, _ = (execution.id for execution in run.executions)
    assert f'value="{first}"' in html and f'value="{second}"' in html and str(again) not in html
    assert browser.get(f"{url}/content?version={first}").content == b"one"
    assert "two" in browser.get(f"{url}?version={second}").content.decode()
    assert browser.get(f"{url}/content").content == b"three"
    for unknown in (uuid4(), "x", again):
        assert browser.get(f"{url}?version={unknown}").status_code == 404
    write_artifact(Writer(session.pk), "out/a.md", b"by a user")
    assert "Version 4 · now" in browser.get(url).content.decode(), "what a user stored is the present version"
    page = browser.get(f"/chat/{session.pk}").content.decode()
    assert 'data-path="out/a.md"' in page, "the card of the call opens the file"


def test_an_archive_has_every_file_that_is_still_there(session: Session, browser: Client) -> None:
    rows = [store(session, f"files/{name}", name.encode() * 1000) for name in ("a.txt", "b.txt", "c.txt")]
    answer: Any = browser.get(f"/chat/{session.pk}/files.zip")
    assert answer.headers["Content-Type"] == "application/zip" and answer.streaming
    delete_artifact(session.pk, "files/b.txt")

    async def read() -> bytes:
        return b"".join([piece async for piece in stream_archive(entries_of([("x/y.txt", row) for row in rows]))])

    with ZipFile(BytesIO(asyncio.run(read()))) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["x/y.txt", "x/y (3).txt"]
        assert archive.read("x/y.txt") == b"a.txt" * 1000


def test_files_of_workstreams_are_in_folders_of_their_names() -> None:
    run_id = UUID(int=7)
    names = {run_id: "Prices › Deep: one"}
    for path in (f"files/{run_id}/out/a.md", f"files/workstreams/{run_id}/out/a.md"):
        assert shown_folder(path, names) == "Prices › Deep: one › out"
        assert archive_path(path, names) == "workstreams/Prices › Deep_ one/out/a.md"
        assert archive_path(path, {}) == path
    assert shown_folder("out/a.md", names) == "out" and archive_path("out/a.md", names) == "out/a.md"
    entries = entries_of([(f"a{n}/x.md", ArtifactView(**_fields(n))) for n in range(2)])
    assert [entry.name for entry in entries] == ["a0/x.md", "a1/x.md"] and isinstance(entries[0], Entry)


def _fields(number: int) -> dict[str, Any]:
    texts = dict.fromkeys(("path", "media_type", "sha256"), "")
    return {**texts, "id": UUID(int=number), "session_id": None, "run_id": None, "size_bytes": 0, "updated_at": None}


def test_tables_are_cut_and_say_so() -> None:
    wide = ",".join(map(str, range(MOST_COLUMNS + 5)))
    table = preview_of(File("a.csv", "", ("\n".join([wide] * (MOST_ROWS + 11))).encode()))
    assert table.kind is Kind.TABLE and len(table.rows) == MOST_ROWS and len(table.header) == MOST_COLUMNS
    assert table.note == "The first 200 of 210 rows. The first 50 of 55 columns."
    ragged = preview_of(File("a.tsv", "", b"a\tb\n1\n\n1\t2\t3\n"))
    assert ragged.header == ("a", "b", "") and ragged.rows == (("1", "", ""), ("1", "2", "3"))
    assert preview_of(File("a.csv", "", b"just a text")).kind is Kind.CODE
    assert preview_of(File("a.csv", "", b'a,b\n"' + b"x" * 200_000)).kind is Kind.CODE, "a field without an end"
    long = preview_of(File("a.txt", "", b"x" * 300_000))
    assert long.note == "The first 200,000 of 300,000 characters." and len(long.html) < 201_000
