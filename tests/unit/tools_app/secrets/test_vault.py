"""The vault: sealed with the newest key, opened with any of the installation's keys."""

import pytest

from tools_app.secrets.vault import SealError, seal, unseal


@pytest.mark.parametrize("text", ["sk-secret", "", "пароль 🔑", "x" * 10_000])
def test_what_is_sealed_comes_back(settings, text):
    settings.KOMAND_VAULT_KEYS = "first-key"
    sealed = seal(text)
    assert unseal(sealed) == text
    assert sealed.isascii()
    assert text == "" or text not in sealed


def test_the_same_secret_is_sealed_differently_each_time(settings):
    settings.KOMAND_VAULT_KEYS = "first-key"
    assert seal("a") != seal("a")


def test_an_old_key_still_opens_and_the_newest_one_seals(settings):
    settings.KOMAND_VAULT_KEYS = "old"
    sealed_before = seal("secret")
    settings.KOMAND_VAULT_KEYS = "new, old"
    sealed_after = seal("secret")
    assert unseal(sealed_before) == "secret"
    settings.KOMAND_VAULT_KEYS = "new"
    assert unseal(sealed_after) == "secret"
    with pytest.raises(SealError):
        unseal(sealed_before)


@pytest.mark.parametrize("damage", [lambda sealed: sealed[:-2], lambda sealed: "", lambda sealed: "ключ"])
def test_a_damaged_seal_is_refused(settings, damage):
    settings.KOMAND_VAULT_KEYS = "first-key"
    with pytest.raises(SealError):
        unseal(damage(seal("secret")))


def test_no_key_is_a_clear_error(settings):
    settings.KOMAND_VAULT_KEYS = " , "
    with pytest.raises(SealError, match="KOMAND_VAULT_KEYS"):
        seal("secret")
