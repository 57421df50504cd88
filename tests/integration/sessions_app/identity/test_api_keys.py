"""API keys: created, stored as digests, authenticated, revoked."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from audit_app.kernel.errors import InvalidInput, NotFound
from audit_app.kernel.redact import masked_text
from audit_app.models import AuditEntry
from sessions_app.identity import api_keys
from sessions_app.identity.api_keys import ApiKeyRefused
from sessions_app.models import ApiKey

pytestmark = pytest.mark.django_db


def test_key_proves_its_user_and_scopes(alice):
    made = api_keys.create_api_key(alice, "script", scopes=["read", "read"])
    principal = api_keys.authenticate_key(made.key)
    assert (principal.user, principal.kind, principal.scopes) == (alice, "api_key", frozenset({"read"}))
    assert not principal.can_write


def test_key_looks_as_promised_and_is_masked_in_logs(alice):
    key = api_keys.create_api_key(alice, "script", scopes=["all"]).key
    assert re.fullmatch(r"sk-user-[A-Za-z0-9]{55}", key)
    assert key[8:] not in masked_text(f"Authorization: Bearer {key} sent")


def test_only_a_digest_is_stored_and_the_audit_log_has_no_secret(alice):
    made = api_keys.create_api_key(alice, "script", scopes=["all"])
    secret = made.key.removeprefix(f"sk-user-{made.row.prefix}")
    assert secret not in str(vars(ApiKey.objects.get()))
    assert secret not in str(AuditEntry.objects.get(action="ApiKeyCreated").details)


def test_changed_key_is_refused(alice):
    key = api_keys.create_api_key(alice, "script", scopes=["all"]).key
    for wrong in (
        key[:-1],
        key + "a",
        key[:-1] + ("a" if key[-1] != "a" else "b"),
        "sk-user-",
        "sk-user-nobody" + "x" * 50,
    ):
        with pytest.raises(ApiKeyRefused):
            api_keys.authenticate_key(wrong)


@pytest.mark.parametrize("change", [{"expires_at": -1}, {"revoked_at": -1}])
def test_ended_key_is_refused(alice, change):
    made = api_keys.create_api_key(alice, "script", scopes=["all"])
    ApiKey.objects.update(**{field: timezone.now() + timedelta(seconds=s) for field, s in change.items()})
    with pytest.raises(ApiKeyRefused):
        api_keys.authenticate_key(made.key)


def test_key_of_a_deactivated_user_is_refused(alice):
    made = api_keys.create_api_key(alice, "script", scopes=["all"])
    User.objects.update(is_active=False)
    with pytest.raises(ApiKeyRefused):
        api_keys.authenticate_key(made.key)


def test_use_is_stored_at_most_once_a_minute(alice):
    made = api_keys.create_api_key(alice, "script", scopes=["all"])
    api_keys.authenticate_key(made.key)
    first = ApiKey.objects.get().last_used_at
    api_keys.authenticate_key(made.key)
    assert first is not None
    assert ApiKey.objects.get().last_used_at == first
    ApiKey.objects.update(last_used_at=first - timedelta(seconds=61))
    api_keys.authenticate_key(made.key)
    assert ApiKey.objects.get().last_used_at >= first


def test_unknown_scope_and_past_expiry_are_refused(alice):
    with pytest.raises(InvalidInput, match="Known: all, read, rights, senders:any, a2a, a2a:read, ag_ui"):
        api_keys.create_api_key(alice, "script", scopes=["admin"])
    with pytest.raises(InvalidInput):
        api_keys.create_api_key(alice, "script", expires_at=timezone.now(), scopes=["all"])
    assert not ApiKey.objects.exists()


def test_revoking_works_once_is_audited_once_and_only_on_ones_own(alice):
    made = api_keys.create_api_key(alice, "script", scopes=["all"])
    bob = User.objects.create_user("bob")
    with pytest.raises(NotFound):
        api_keys.revoke_api_key(bob, made.row.pk)
    api_keys.authenticate_key(made.key)
    api_keys.revoke_api_key(alice, made.row.pk)
    api_keys.revoke_api_key(alice, made.row.pk)
    with pytest.raises(ApiKeyRefused):
        api_keys.authenticate_key(made.key)
    assert AuditEntry.objects.filter(action="ApiKeyRevoked").count() == 1


def test_command_prints_the_key_alone(alice, capsys):
    call_command("create_api_key", user="alice", name="curl", scope=["read"], expires_days="3")
    printed = capsys.readouterr().out
    assert printed.endswith("\n")
    assert api_keys.authenticate_key(printed.strip()).user == alice
    assert ApiKey.objects.get().expires_at > timezone.now() + timedelta(days=2)


def test_the_command_reports_an_unknown_user():
    with pytest.raises(CommandError, match="nobody"):
        call_command("create_api_key", user="nobody", name="curl")
