"""Files of the data folder, and the environment of processes: what another user of the machine could read."""

import os
import socket
import stat
from io import StringIO
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core.management import call_command

from komand import data_folder
from tests.support.live_server import LiveKomand, start_komand


def modes(folder: Path) -> dict[str, int]:
    """Return the mode of the folder and of everything in it, by path."""
    return {str(path): stat.S_IMODE(path.lstat().st_mode) for path in (folder, *folder.rglob("*"))}


def opened_folder(folder: Path) -> Path:
    """Return a data folder as a release before, under umask 022, left it."""
    for name in ("secrets", "valkey", "artifacts/s"):
        (folder / name).mkdir(parents=True)
    for name in ("komand.sqlite3", "komand.sqlite3-wal", "komand.sqlite3-shm", "secrets/vault.key", "artifacts/s/f"):
        (folder / name).write_text("private")
        (folder / name).chmod(0o644)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "valkey" / "valkey.sock"))
    for path in (folder, *folder.rglob("*")):
        if not path.is_file():
            path.chmod(0o755)
    return folder


@pytest.mark.django_db
def test_prepare_takes_the_access_of_others_away(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = opened_folder(tmp_path / "data")
    errors = StringIO()
    call_command("prepare", stdout=StringIO(), stderr=errors)
    found = modes(settings.DATA_DIR)
    assert len(found) == 11
    assert not [path for path, mode in found.items() if mode & 0o077]
    assert "other users had access to 11 entries" in errors.getvalue()
    assert not list(data_folder.find_open(settings.DATA_DIR))


def test_no_link_is_followed_and_entries_of_other_programs_stay(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "data"
    (outside / "below").mkdir(parents=True)
    (folder / "secrets").mkdir(parents=True)
    (folder / "site").mkdir()
    for path in (outside / "file", outside / "below" / "file", folder / "site" / "index.html"):
        path.write_text("public")
        path.chmod(0o644)
    (folder / "secrets" / "to-file").symlink_to(outside / "file")
    (folder / "secrets" / "to-folder").symlink_to(outside)
    (folder / "artifacts").symlink_to(outside)
    before = {**modes(outside), **modes(folder / "site")}
    data_folder.mend(folder)
    assert {**modes(outside), **modes(folder / "site")} == before
    assert modes(folder)[str(folder)] & 0o077 == 0
    assert not [path for path in data_folder.find_open(folder) if "site" not in str(path)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_files_of_another_user_stay(tmp_path: Path) -> None:
    (tmp_path / "komand.sqlite3").touch()
    (tmp_path / "komand.sqlite3").chmod(0o644)
    os.chown(tmp_path / "komand.sqlite3", 65534, 65534)
    assert data_folder.mend(tmp_path) in ((0, []), (1, []))
    assert modes(tmp_path)[str(tmp_path / "komand.sqlite3")] == 0o644


def test_a_file_system_without_modes_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted", str(self))

    monkeypatch.setattr("komand.data_folder._OTHERS", 0o777)
    monkeypatch.setattr(Path, "chmod", refuse)
    changed, errors = data_folder.mend(tmp_path)
    assert changed == 0 and errors


def processes_of(komand: LiveKomand) -> list[psutil.Process]:
    """Return every process of the installation but the supervisor."""
    return psutil.Process(komand.process.pid).children(recursive=True)


def test_no_process_creates_files_for_others(live_komand: LiveKomand) -> None:
    everyone = [psutil.Process(live_komand.process.pid), *processes_of(live_komand)]
    assert len(everyone) >= 5
    masks = {
        process.pid: line.split()[1]
        for process in everyone
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
        if line.startswith("Umask:")
    }
    assert set(masks.values()) == {"0077"}
    assert not [path for path, mode in modes(live_komand.data_dir).items() if mode & 0o077]


def test_no_process_has_the_key_of_the_provider_in_its_environment(live_komand: LiveKomand) -> None:
    key = live_komand.environment["OPENAI_API_KEY"].encode()
    environments = {
        " ".join(process.cmdline()): Path(f"/proc/{process.pid}/environ").read_bytes()
        for process in processes_of(live_komand)
    }
    assert len(environments) >= 4
    assert not [command for command, environment in environments.items() if key in environment]
    (valkey,) = (environment for command, environment in environments.items() if "valkey-server" in command)
    assert b"KOMAND_" not in valkey and b"DJANGO_" not in valkey
    assert live_komand.ask("What is the key?")["success"]  # it is sealed in the database


@pytest.mark.whole
def test_a_start_on_an_open_folder_makes_it_private(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    (tmp_path / "data").chmod(0o755)
    komand = start_komand(tmp_path)
    try:
        assert not [path for path, mode in modes(komand.data_dir).items() if mode & 0o077]
    finally:
        komand.stop()
