"""Credentials: write-only, by owner and name, audited, and resolved in references."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connections

from agents_app.models import ModelProvider
from agents_app.providers import registry
from agents_app.providers.base import ProviderError
from audit_app.kernel import redact
from audit_app.kernel.errors import InvalidInput
from audit_app.models import AuditEntry
from tools_app.models import Credential
from tools_app.secrets import key_rotation, vault
from tools_app.secrets.credentials import (
    UnknownCredential,
    delete_credential,
    list_credentials,
    resolve_references,
    store_credential,
    use_credential,
)

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

VALUE = "hunter2-hunter2"


@pytest.fixture
def owner_id(alice: User) -> int:
    return alice.pk


def actions() -> list[str]:
    return list(AuditEntry.objects.order_by("id").values_list("action", flat=True))


def test_a_value_is_sealed_used_by_name_and_every_use_is_audited(owner_id):
    row, is_new = store_credential("weather", VALUE, owner_id=owner_id, hosts=["127.0.0.1"])
    assert is_new and VALUE not in row.value_sealed and row.last_used_at is None
    assert use_credential("weather", owner_id=owner_id, purpose="skill weather") == VALUE
    row.refresh_from_db()
    assert row.last_used_at is not None
    assert actions() == ["CredentialStored", "CredentialAccessed"]
    entry = AuditEntry.objects.get(action="CredentialAccessed")
    assert entry.details == {"name": "weather", "owner": f"user:{owner_id}", "purpose": "skill weather"}


def test_storing_it_again_replaces_the_value(owner_id):
    first, _ = store_credential("weather", VALUE, owner_id=owner_id, hosts=["127.0.0.1"])
    second, is_new = store_credential("weather", "another-value", owner_id=owner_id, hosts=["127.0.0.1"])
    assert (second.pk, is_new) == (first.pk, False)
    assert use_credential("weather", owner_id=owner_id, purpose="test") == "another-value"


def test_a_name_is_its_owners_alone(owner_id):
    bob = User.objects.create_user("bob").pk
    store_credential("weather", VALUE, owner_id=owner_id, hosts=["127.0.0.1"])
    for other in (bob, None):
        with pytest.raises(UnknownCredential):
            use_credential("weather", owner_id=other, purpose="test")
        with pytest.raises(UnknownCredential):
            delete_credential("weather", owner_id=other)
        assert list_credentials(other) == ()
    store_credential("weather", "the-installations", owner_id=None)
    assert use_credential("weather", owner_id=owner_id, purpose="test") == VALUE
    assert use_credential("weather", owner_id=None, purpose="test") == "the-installations"


def test_a_deleted_one_is_gone_and_so_are_a_deleted_users(owner_id):
    store_credential("a", VALUE, owner_id=owner_id, hosts=["127.0.0.1"])
    store_credential("b", VALUE, owner_id=owner_id, hosts=["127.0.0.1"])
    delete_credential("a", owner_id=owner_id)
    assert [row.name for row in list_credentials(owner_id)] == ["b"]
    User.objects.get(pk=owner_id).delete()
    assert not Credential.objects.exists()


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 121, "{{x}}", "ü", ".x", "a\n"])
def test_an_odd_name_is_refused(owner_id, name):
    with pytest.raises(InvalidInput):
        store_credential(name, VALUE, owner_id=owner_id, hosts=["127.0.0.1"])


@pytest.mark.parametrize("value", ["", "short", "x" * 65_537])
def test_a_value_that_cannot_be_kept_or_masked_is_refused(owner_id, value):
    with pytest.raises(InvalidInput):
        store_credential("weather", value, owner_id=owner_id, hosts=["127.0.0.1"])


def test_references_are_resolved_at_use_and_the_value_is_masked_from_then_on(owner_id):
    store_credential("weather", VALUE, owner_id=owner_id, hosts=["127.0.0.1"])
    text = resolve_references("Bearer {{credential:weather}} {{ other }}", owner_id=owner_id, purpose="test")
    assert text == f"Bearer {VALUE} {{{{ other }}}}"
    assert redact.masked_text(f"it was {VALUE}") == f"it was {redact.MASK}"
    with pytest.raises(UnknownCredential):
        resolve_references("{{credential:none}}", owner_id=owner_id, purpose="test")


@pytest.mark.django_db(transaction=True)
def test_two_who_store_the_same_name_at_once_leave_one(owner_id):
    def store(number):
        try:
            store_credential("weather", f"value-number-{number}", owner_id=owner_id, hosts=["127.0.0.1"])
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(store, range(6)))
    assert len(list_credentials(owner_id)) == 1


def test_a_provider_uses_the_installations_credential_by_name(monkeypatch):
    seen = []

    class Fake:
        def __init__(self, *, base_url, api_key, default_model):
            seen.append(api_key)

    monkeypatch.setattr(registry, "load", lambda kind: Fake)
    monkeypatch.setattr(registry, "_open", {})
    monkeypatch.setattr(registry, "_replaced", [])
    row = ModelProvider.objects.create(name="p", kind="fake", api_key_sealed=vault.seal("{{credential:openai}}"))
    with pytest.raises(ProviderError) as caught:
        registry.open_provider(row)
    assert caught.value.code == "model_auth" and "openai" in caught.value.message
    store_credential("openai", "sk-first-value", owner_id=None)
    registry.open_provider(row)
    monkeypatch.setattr("tools_app.secrets.credentials.on_change", [registry.credential_changed])
    store_credential("openai", "sk-second-value", owner_id=None)
    row.refresh_from_db()
    registry.open_provider(row)
    assert seen == ["sk-first-value", "sk-second-value"]


def test_every_sealed_secret_is_sealed_again_with_the_newest_key(owner_id, settings):
    settings.KOMAND_VAULT_KEYS = "old"
    store_credential("weather", VALUE, owner_id=owner_id, hosts=["127.0.0.1"])
    row = ModelProvider.objects.create(name="p", kind="fake", api_key_sealed=vault.seal("sk-key"))
    settings.KOMAND_VAULT_KEYS = "new,old"
    assert key_rotation.count_by_old_keys() == 2
    assert key_rotation.reseal_all() == key_rotation.Resealed(2, ())
    assert key_rotation.count_by_old_keys() == 0
    settings.KOMAND_VAULT_KEYS = "new"
    row.refresh_from_db()
    assert vault.unseal(row.api_key_sealed) == "sk-key"
    assert use_credential("weather", owner_id=owner_id, purpose="test") == VALUE


def test_a_secret_that_no_key_opens_is_named(owner_id, settings):
    settings.KOMAND_VAULT_KEYS = "lost"
    row, _ = store_credential("weather", VALUE, owner_id=owner_id, hosts=["127.0.0.1"])
    settings.KOMAND_VAULT_KEYS = "new"
    assert key_rotation.reseal_all().unreadable == (f"komand_credential/{row.pk}/value_sealed",)


def test_all_secrets_of_the_installation_are_known_by_their_columns():
    names = {f"{model.__name__}.{column}" for model, column in key_rotation.sealed_columns()}
    assert {"Credential.value_sealed", "ModelProvider.api_key_sealed", "ChannelAccount.secrets_sealed"} <= names
