"""The contract of stores of files: the data folder, and a bucket on a server of its own."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from audit_app import retention
from audit_app.kernel.errors import InvalidInput, NotFound, Unavailable
from komand import doctor
from komand.backup import files
from komand.findings import Finding
from komand.settings import file_storage
from sessions_app.attachments import file_parts, storage, uploads
from sessions_app.integrity_checks import find_violations
from sessions_app.models import Attachment
from sessions_app.platforms.base import FetchError
from sessions_app.services import NewMessage, open_session, receive
from tests.support.bucket_server import BucketServer
from tests.support.rest import RestCaller
from tests.support.units import free_port
from tools_app.models import Artifact
from tools_app.storage import artifacts, file_store

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.one_database,
    pytest.mark.usefixtures("valkey", "default_agent"),
]
FOLDER, BUCKET = "folder", "bucket"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BucketServer]:
    with BucketServer(tmp_path_factory.mktemp("buckets"), free_port()) as started:
        yield started


@pytest.fixture(params=[FOLDER, BUCKET])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest, settings: Any, tmp_path: Path) -> Path:
    """Choose the store. Return the folder in which its files are."""
    settings.DATA_DIR = tmp_path
    if kind == FOLDER:
        return tmp_path
    return use(request.getfixturevalue("server"), settings)


def use(server: BucketServer, settings: Any) -> Path:
    """Use the bucket from now on. Return the folder of its objects."""
    given = server.settings
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**given, "KOMAND_S3_PREFIX": f"{given['KOMAND_S3_PREFIX']}/{uuid4()}"}.items():
            patch.setenv(name, value)
        configuration = file_storage.configuration(given["KOMAND_S3_BUCKET"])
    settings.KOMAND_S3_BUCKET = given["KOMAND_S3_BUCKET"]
    settings.STORAGES = {**settings.STORAGES, "files": configuration}
    return server.files / configuration["OPTIONS"]["location"]


def names(place: Path) -> list[str]:
    """Return the names of all files of artifacts and attachments."""
    found = (path for kind in ("artifacts", "attachments") for path in (place / kind).rglob("*") if path.is_file())
    return sorted(path.relative_to(place).as_posix() for path in found)


def test_a_file_is_written_replaced_copied_listed_and_removed(place: Path) -> None:
    store = file_store.current()
    store.write("artifacts/a/1", b"first")
    store.write("artifacts/a/1", b"second \0\xff")
    store.copy("artifacts/a/1", "artifacts/b/2")
    assert (place / "artifacts/a/1").read_bytes() == store.read("artifacts/b/2") == b"second \0\xff"
    [(name, changed)] = store.list_files("artifacts/b")
    assert name == "artifacts/b/2" and changed > 0
    wanted = ["artifacts/a/1", "artifacts/a/0", "attachments/00/3"]
    assert store.find_missing(wanted) == wanted[1:]
    store.remove("artifacts/a/1", "artifacts/a/0")
    store.remove()
    assert names(place) == ["artifacts/b/2"]


def test_a_file_that_is_not_there_is_an_error_of_its_own(place: Path) -> None:
    store = file_store.current()
    for act in (lambda: store.read("artifacts/a/1"), lambda: store.copy("artifacts/a/1", "artifacts/a/2")):
        with pytest.raises(NotFound, match="The file's content is not"):
            act()
    assert list(store.list_files("artifacts")) == []


def test_a_draft_that_is_not_kept_leaves_nothing(place: Path) -> None:
    store = file_store.current()
    with pytest.raises(RuntimeError), store.open_draft("attachments/00/1") as draft:
        draft.write(b"half")
        raise RuntimeError
    with store.open_draft("attachments/00/1") as draft:
        draft.write(b"whole")
        store.keep(draft, "attachments/00/1")
    assert store.read("attachments/00/1") == b"whole" and names(place) == ["attachments/00/1"]


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_file_of_a_channel_is_stored_piece_by_piece_or_not_at_all(place: Path, is_whole: bool) -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        for _ in range(3):
            yield b"a piece, " * 100_000
        if not is_whole:
            raise FetchError("the platform broke off", is_final=True)

    file = uuid4()
    if is_whole:
        size, content = asyncio.run(storage.store(file, pieces()))
        assert (size, content.mime_type) == (2_700_000, "text/plain")
        assert storage.read(storage.path_of(file)) == b"a piece, " * 300_000
    else:
        with pytest.raises(FetchError, match="broke off"):
            asyncio.run(storage.store(file, pieces()))
        assert names(place) == []


def test_an_uploaded_file_becomes_an_artifact_that_is_replaced_and_deleted(place: Path, alice: User) -> None:
    row, session = uploads.upload(alice, "a.txt", b"content"), open_session(owner=alice, title="Files")
    assert names(place) == [f"attachments/{row.path}"]
    receive(NewMessage.into(session, "Look.", attachments=(row.pk,)), owner=alice, session=session)
    artifact = Artifact.objects.get()
    assert names(place) == [f"artifacts/{session.pk}/{artifact.blob}"]
    answer = RestCaller(alice).get(f"artifacts/{artifact.pk}")
    assert (answer.status, answer.data) == (200, b"content") and file_parts.load(str(row.pk)) == b"content"
    artifacts.write_artifact(artifacts.Writer(session.pk), "files/a.txt", b"other")
    with pytest.raises(NotFound):
        file_parts.load(str(row.pk))
    assert names(place) == [f"artifacts/{session.pk}/{Artifact.objects.get().blob}"]
    assert artifacts.delete_artifact(session.pk, "files/a.txt") and names(place) == []


def test_a_refused_file_leaves_nothing(place: Path, alice: User, settings: Any) -> None:
    session = open_session(owner=alice, title="Files")
    settings.KOMAND_ARTIFACTS_MAX_BYTES = 3
    with pytest.raises(InvalidInput, match="at most 3 bytes"):
        artifacts.write_artifact(artifacts.Writer(session.pk), "out/a.txt", b"content")
    assert names(place) == []


def test_the_invariants_name_what_is_missing_and_a_backup_has_the_rest(
    place: Path, alice: User, tmp_path: Path
) -> None:
    session = open_session(owner=alice, title="Files")
    for name in ("out/a", "out/b"):
        artifacts.write_artifact(artifacts.Writer(session.pk), name, name.encode())
    kept, lost = (f"artifacts/{session.pk}/{row.blob}" for row in Artifact.objects.order_by("path"))
    assert find_violations() == []
    call_command("backup", str(tmp_path / "whole"))
    assert {(tmp_path / "whole" / name).read_bytes() for name in (kept, lost)} == {b"out/a", b"out/b"}
    (place / lost).unlink()
    assert [str(found) for found in find_violations()] == [f"invariant 11: the file {lost} is missing"]
    with pytest.raises(CommandError, match="1 files that rows refer to are missing in "):
        call_command("backup", str(tmp_path / "part"))


@pytest.mark.parametrize("kind", [FOLDER])
def test_a_backup_of_a_folder_can_be_restored_into_a_bucket_and_back(
    place: Path, alice: User, server: BucketServer, settings: Any, tmp_path: Path
) -> None:
    artifacts.write_artifact(artifacts.Writer(uuid4()), "out/a", b"content")
    stored = names(place)
    files.copy(tmp_path, tmp_path / "backup")
    bucket = use(server, settings)
    files.load(tmp_path / "backup", tmp_path / "other")
    assert names(bucket) == stored and not (tmp_path / "other" / "artifacts").exists()
    files.copy(tmp_path / "other", tmp_path / "second")
    settings.KOMAND_S3_BUCKET = ""
    files.load(tmp_path / "second", tmp_path / "third")
    assert names(tmp_path / "third") == stored


@pytest.fixture
def away(server: BucketServer, settings: Any, tmp_path: Path) -> Iterator[Path]:
    """Use a bucket whose server does not run. It is started again at the end."""
    settings.DATA_DIR = tmp_path
    place = use(server, settings)
    server.stop()
    yield place
    server.start()


def test_without_its_server_nothing_is_lost(away: Path, server: BucketServer, alice: User) -> None:
    server.start()
    row, session = uploads.upload(alice, "a.txt", b"content"), open_session(owner=alice, title="Files")
    server.stop()
    sent = NewMessage.into(session, "Look.", attachments=(row.pk,))
    with pytest.raises(Unavailable, match="Try again"):
        receive(sent, owner=alice, session=session)
    answer = RestCaller(alice)("POST", "attachments?filename=b.txt", b"content")
    assert answer.status == 503 and "Try again in a few minutes" in str(answer.error)
    assert "Retry-After" in answer.headers
    Attachment.objects.update(created_at=retention.days_ago(2))
    [unsent] = [rule for rule in retention.list_rules() if rule.name == "uploaded files without a message"]
    with pytest.raises(Unavailable):
        unsent.prune(10)
    assert Attachment.objects.get().turn is None and not Artifact.objects.exists()
    server.start()
    receive(sent, owner=alice, session=session)
    assert artifacts.read_artifact(session.pk, "files/a.txt")[1] == b"content"


def test_doctor_says_what_is_wrong_with_a_bucket(away: Path, server: BucketServer, settings: Any) -> None:
    def found() -> Finding:
        [finding] = doctor._files()
        return finding

    finding = found()
    assert not finding.ok and "Could not connect" in finding.detail and "KOMAND_S3_" in finding.mend
    server.start()
    assert found().ok and names(away) == []
    wrong = {**settings.STORAGES["files"]["OPTIONS"], "secret_key": "of-somebody-else"}
    settings.STORAGES = {**settings.STORAGES, "files": {**settings.STORAGES["files"], "OPTIONS": wrong}}
    finding = found()
    assert not finding.ok and "SignatureDoesNotMatch" in finding.detail and "of-somebody-else" not in finding.detail


def test_the_data_folder_loads_no_library_of_buckets() -> None:
    assert file_storage.configuration("") == {"BACKEND": "tools_app.storage.file_store.Folder"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"KOMAND_S3_ENDPOINT": "s3.example.com"}, "KOMAND_S3_ENDPOINT must look like https://"),
        ({"KOMAND_S3_ENDPOINT": "https://key:secret@s3.example.com"}, "without keys"),
        ({"KOMAND_S3_ACCESS_KEY": "key"}, "must be set together"),
    ],
)
def test_settings_of_a_bucket_that_cannot_work_stop_the_start(
    given: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match=problem):
        file_storage.configuration("bucket")
    with pytest.raises(SystemExit, match="KOMAND_S3_BUCKET must be set"):
        file_storage.configuration("")


def test_a_bucket_without_its_packages_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_storage, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=f"extra s3; run: {sys.executable} -m pip install django-storages boto3"):
        file_storage.configuration("bucket")
