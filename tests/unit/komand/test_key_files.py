"""Rotating keys: the new one first, the file whole and private, and nothing done where a variable holds them."""

import stat

import pytest
from django.core.management import CommandError, call_command

from audit_app.kernel.errors import Conflict
from komand import key_files
from komand.settings import env


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KOMAND_DATA_DIR", str(tmp_path))
    for _, variable in key_files.ROTATED.values():
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "secrets"


def test_a_new_key_comes_first_and_the_old_ones_stay(folder):
    first = env.secret_file("receipts.key", "KOMAND_RECEIPT_KEYS")
    assert key_files.rotate("receipts") == 2
    newest, old = env.secret_file("receipts.key", "KOMAND_RECEIPT_KEYS").split(",")
    assert old == first and len(newest) > 40 and newest != old
    assert stat.S_IMODE((folder / "receipts.key").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["receipts.key"]
    assert key_files.drop_old("receipts") == 1
    assert (folder / "receipts.key").read_text() == newest


def test_keys_of_a_variable_are_not_touched(folder, monkeypatch):
    env.secret_file("vault.key", "KOMAND_VAULT_KEYS")
    monkeypatch.setenv("KOMAND_VAULT_KEYS", "given")
    with pytest.raises(Conflict, match="KOMAND_VAULT_KEYS contains"):
        key_files.rotate("vault")


def test_what_has_not_been_made_yet_is_not_rotated(folder):
    with pytest.raises(CommandError, match="does not exist yet"):
        call_command("rotate_key", "receipts")
