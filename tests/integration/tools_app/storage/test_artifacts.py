"""Files of a session: atomic writes, quotas, and no access outside of their folder."""

import base64
import os
import time
from functools import partial
from uuid import uuid4

import pytest
from django.conf import settings

from audit_app.kernel.errors import InvalidInput, NotFound
from tests.support import documents
from tests.support.documents import pdf, protected_pdf, word
from tools_app.builtin.read_artifact import ReadArtifact
from tools_app.builtin.write_artifact import WriteArtifact
from tools_app.models import Artifact
from tools_app.storage import artifact_paths, artifacts
from tools_app.storage.artifacts import delete_artifact, list_artifacts, read_artifact, write_artifact
from tools_app.types import Change, Risk, ToolContext, ToolError

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture(autouse=True)
def folder(tmp_path, settings):
    settings.DATA_DIR = tmp_path
    return tmp_path / "artifacts"


@pytest.fixture
def session():
    return uuid4()


def write(session, path="out/a.txt", data=b"hello", **fields):
    return write_artifact(artifacts.Writer(session, uuid4(), "default"), path, data, **fields)


def call(tool, session, **arguments):
    context = ToolContext(
        execution_id=uuid4(),
        run_id=uuid4(),
        session_id=session,
        agent_id="default",
        actor="user:1",
        effect_key="k",
        timeout_seconds=10,
    )
    return tool.run(arguments, context)


def blobs(folder, session):
    return sorted(os.listdir(folder / str(session)))


def test_a_file_is_read_as_it_was_written(session):
    written = write(session, data=b"\0\xff", media_type="application/x-thing")
    view, data = read_artifact(session, "out/a.txt")
    assert (data, view, view.size_bytes, view.media_type) == (b"\0\xff", written, 2, "application/x-thing")
    assert write(session, "files/page.html").media_type == "text/html"


def test_a_file_that_keeps_others_is_put_beside_them(session, folder):
    put = partial(write, session, "files/Report.pdf", keep_existing=True)
    paths = [put(data=data).path for data in (b"1", b"2", b"1", b"3", b"2")]
    assert paths == [
        "files/Report.pdf",
        "files/Report (2).pdf",
        "files/Report.pdf",
        "files/Report (3).pdf",
        "files/Report (2).pdf",
    ]
    assert write(session, "files/report.pdf", b"1", keep_existing=True).path == "files/report (4).pdf"
    assert read_artifact(session, "files/Report.pdf")[1] == b"1" and len(blobs(folder, session)) == 4


def test_writing_again_replaces_and_leaves_one_blob(session, folder):
    write(session)
    write(session, data=b"again")
    assert read_artifact(session, "out/a.txt")[1] == b"again"
    assert len(blobs(folder, session)) == 1
    assert [view.path for view in list_artifacts(session)] == ["out/a.txt"]


def test_another_session_has_other_files(session):
    write(session)
    with pytest.raises(NotFound):
        read_artifact(uuid4(), "out/a.txt")


@pytest.mark.parametrize("path", ["../../x", "/etc/passwd", "out/../../x", "out/a\0b", "elsewhere/a"])
def test_no_path_leads_out(session, folder, path):
    for act in (lambda: write(session, path), lambda: read_artifact(session, path)):
        with pytest.raises(InvalidInput) as error:
            act()
        assert error.value.code == "bad_path"
    assert not folder.exists()


def test_a_link_in_the_folder_is_never_followed(session, folder, tmp_path):
    written = write(session)
    blob = folder / str(session) / str(Artifact.objects.get(pk=written.id).blob)
    (tmp_path / "secret").write_text("secret")
    blob.unlink()
    blob.symlink_to(tmp_path / "secret")
    with pytest.raises(NotFound):
        read_artifact(session, "out/a.txt")


def test_a_path_that_differs_in_case_alone_is_taken(session):
    write(session, "out/Report.md")
    with pytest.raises(InvalidInput) as error:
        write(session, "out/report.md")
    assert error.value.code == "path_taken"


def test_quotas_hold_and_leave_nothing_behind(session, folder, settings, monkeypatch):
    settings.KOMAND_ARTIFACT_MAX_BYTES, settings.KOMAND_ARTIFACTS_MAX_BYTES = 10, 15
    with pytest.raises(InvalidInput, match="at most 10"):
        write(session, data=b"a" * 11)
    write(session, data=b"a" * 10)
    with pytest.raises(InvalidInput, match="5 are left"):
        write(session, "out/b.txt", b"b" * 6)
    write(session, data=b"c" * 9)  # in place of the first
    monkeypatch.setattr(artifacts, "MAX_FILES", 1)
    with pytest.raises(InvalidInput, match="1 files"):
        write(session, "out/c.txt", b"c")
    assert len(blobs(folder, session)) == 1


def test_what_a_crash_left_is_removed_when_it_is_old(session, folder):
    write(session)
    for name, age in (("old", 7200), ("young", 0)):
        path = folder / str(session) / name
        path.write_text("x")
        os.utime(path, (time.time() - age, time.time() - age))
    write(session, data=b"again")
    assert {"old", "young"} & set(blobs(folder, session)) == {"young"}


def test_a_deleted_file_is_gone_with_its_bytes(session, folder):
    write(session)
    assert delete_artifact(session, "out/a.txt") and not delete_artifact(session, "out/a.txt")
    assert blobs(folder, session) == []


def test_tools_write_list_and_read_text_in_pieces(session):
    text = "häl" * 100
    assert call(WriteArtifact(), session, path="out/t.md", content=text)["bytes"] == 400
    assert call(ReadArtifact(), session)["files"] == [{"path": "out/t.md", "media_type": "text/markdown", "bytes": 400}]
    first = call(ReadArtifact(), session, path="out/t.md", max_characters=200)
    assert (first["content"], first["characters"], first["next_offset"]) == (text[:200], 300, 200)
    last = call(ReadArtifact(), session, path="out/t.md", offset=200)
    assert (first["content"] + last["content"], last["next_offset"]) == (text, None)
    assert last["sources"][0]["uri"] == "artifact:out/t.md"


def test_tools_take_other_bytes_as_base64(session):
    data = bytes(range(256))
    call(WriteArtifact(), session, path="out/b.bin", content=base64.b64encode(data).decode(), encoding="base64")
    read = call(ReadArtifact(), session, path="out/b.bin")
    assert (read["encoding"], base64.b64decode(read["content"])) == ("base64", data)
    with pytest.raises(ToolError, match="base64"):
        call(WriteArtifact(), session, path="out/b.bin", content="not base64!", encoding="base64")


def test_the_tool_reads_the_text_of_documents(session):
    for path, data in {"files/a.docx": word(*["line"] * 9), "files/b": pdf("line " * 9, pages=2)}.items():
        write(session, path, data)
        read = call(ReadArtifact(), session, path=path, max_characters=4)
        assert (read["encoding"], read["content"], read["sources"][0]["quote"]) == ("text", "line", "line")
        assert read["next_offset"] == 4 < read["characters"] and "is_cut" not in read
        assert "line" in call(ReadArtifact(), session, path=path, offset=4)["content"]
    assert read["page_count"] == 2


def test_the_tool_says_why_a_document_has_no_text(session):
    broken = {
        "it is protected by a password": protected_pdf("x"),
        "it unpacks to more than 64 MB": documents.BOMB,
        "its XML declares entities": documents.OUTER_ENTITY,
        "it is damaged": documents.DAMAGED,
        "save it as .docx": documents.OLD,
        "it has no text": pdf(""),
    }
    for number, (reason, data) in enumerate(broken.items()):
        write(session, f"files/{number}.docx", data)
        with pytest.raises(ToolError, match=rf"^The text of files/{number}\.docx could not be read: .*{reason}.*\.$"):
            call(ReadArtifact(), session, path=f"files/{number}.docx")
    long = word(*["x" * 1_000] * 300)
    write(session, "files/long.docx", long)
    assert call(ReadArtifact(), session, path="files/long.docx")["is_cut"] is True


def test_the_agents_own_folder_is_of_less_risk_than_the_persons(session):
    tool = WriteArtifact()
    assert tool.risk_of({"path": "out/a"}) is Risk.LOW
    assert tool.risk_of({"path": "files/a"}) is tool.risk_of({"path": "out/../files/a"}.copy() | {"path": "files/b"})
    write(session, "files/a.txt", b"before")
    change = tool.preview(
        {"path": "files/a.txt", "content": "after"}, run_id=uuid4(), session_id=session, agent_id="default"
    )
    assert change == Change("before", "after", "files/a.txt")


def test_bytes_that_are_gone_are_a_readable_error(session, folder):
    write(session)
    for name in blobs(folder, session):
        (folder / str(session) / name).unlink()
    with pytest.raises(ToolError, match="not on this machine"):
        call(ReadArtifact(), session, path="out/a.txt")


def test_the_folder_is_the_installations_own(folder, session):
    write(session)
    assert (folder / str(session)).stat().st_mode & 0o077 == 0
    assert folder.parent == settings.DATA_DIR


def test_the_files_of_a_child_run_replace_none_that_have_their_path(session):
    child = uuid4()
    for path, data in (("report.md", b"parent"), ("report (2).md", b"too")):
        write(session, f"files/{child}/out/{path}", data)
    writer = artifacts.Writer(session, child, "default")
    write_artifact(writer, artifact_paths.of_child("out/Report.md", child), b"child")
    artifacts.merge_artifacts(session, child)
    artifacts.merge_artifacts(session, child)
    found = {view.path: read_artifact(session, view.path)[1] for view in list_artifacts(session)}
    assert found == {
        f"files/{child}/out/report.md": b"parent",
        f"files/{child}/out/report (2).md": b"too",
        f"files/{child}/out/Report (3).md": b"child",
    }
