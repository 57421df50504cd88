"""Files that rows refer to and that are missing: a backup and the invariants say so."""

from io import StringIO
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from sessions_app.attachments import uploads
from sessions_app.integrity_checks import find_violations
from sessions_app.models import Attachment
from sessions_app.services import NewMessage, open_session, receive
from tools_app.models import Artifact
from tools_app.storage import artifacts

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey", "default_agent")]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "DATA_DIR", tmp_path / "data")
    (tmp_path / "data").mkdir()


def store_artifact(user: User) -> Path:
    """Store a file of a session. Return its place."""
    session = open_session(owner=user, title="Files")
    artifacts.write_artifact(artifacts.Writer(session.pk), "out/report.md", b"content")
    return Path(settings.DATA_DIR) / "artifacts" / str(session.pk) / str(Artifact.objects.get().blob)


def store_attachment(pk: UUID, **fields: object) -> Path:
    """Store an attachment without its file. Return the file's place."""
    now, path = timezone.now(), f"00/{pk}"
    Attachment.objects.create(pk=pk, kind="file", status="stored", path=path, until=now, created_at=now, **fields)
    return Path(settings.DATA_DIR) / "attachments" / path


def back_up(folder: Path, *options: str) -> str:
    written = StringIO()
    call_command("backup", str(folder), *options, stdout=written)
    return written.getvalue()


def test_missing_files_are_listed_by_a_backup_and_by_the_invariants(alice: User, tmp_path: Path) -> None:
    artifact, attachment = store_artifact(alice), store_attachment(uuid4(), source="telegram:1")
    attachment.parent.mkdir(parents=True)
    attachment.write_text("content")
    assert "missing:" not in back_up(tmp_path / "whole") and find_violations() == []
    artifact.unlink()
    attachment.unlink()
    lost = [str(path.relative_to(settings.DATA_DIR)) for path in (artifact, attachment)]
    assert [str(found) for found in find_violations()] == [f"invariant 11: the file {path} is missing" for path in lost]
    with pytest.raises(CommandError, match="2 files that rows refer to are missing"):
        back_up(tmp_path / "refused")
    told = back_up(tmp_path / "allowed", "--allow-missing")
    assert "Backed up and verified" in told and [f"missing: {path}" in told for path in lost] == [True, True]


def test_an_uploaded_file_that_was_sent_is_an_artifact(alice: User, tmp_path: Path) -> None:
    row, session = uploads.upload(alice, "a.txt", b"content"), open_session(owner=alice, title="Files")
    receive(NewMessage.into(session, "Look.", attachments=(row.pk,)), owner=alice, session=session)
    row.refresh_from_db()
    assert row.path and not (Path(settings.DATA_DIR) / "attachments" / row.path).exists()
    assert "missing:" not in back_up(tmp_path / "whole")
    assert not [found for found in find_violations() if found.number == 11]


def test_a_file_that_retention_has_deleted_is_not_missing(alice: User, tmp_path: Path) -> None:
    store_attachment(uuid4(), source="telegram:1")
    Attachment.objects.update(path="")
    assert "missing:" not in back_up(tmp_path / "whole") and find_violations() == []
