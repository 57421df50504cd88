import pytest
from django.core.checks import Tags, run_checks
from django.core.checks.registry import registry
from pytest_django.fixtures import Settings

from komand import checks
from sessions_app.platforms.signatures import make_secret


def ids(found: list[object]) -> list[str]:
    return [message.id for message in found]  # type: ignore[attr-defined]


def test_debug_pages_are_refused_where_others_can_reach_them(settings: Settings) -> None:
    settings.DEBUG, settings.ALLOWED_HOSTS = True, ["komand.example.com"]
    assert ids(checks.check_debug(None)) == ["komand.E001"]


def test_debug_pages_are_fine_on_this_machine_alone(settings: Settings) -> None:
    settings.DEBUG, settings.ALLOWED_HOSTS = True, ["127.0.0.1", "localhost", "[::1]"]
    assert checks.check_debug(None) == []


def test_debug_pages_are_refused_when_it_listens_everywhere(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOMAND_HOST", "0.0.0.0")
    settings.DEBUG, settings.ALLOWED_HOSTS = True, ["127.0.0.1"]
    assert ids(checks.check_debug(None)) == ["komand.E001"]


@pytest.mark.parametrize("name", ["KOMAND_JWT_KEY", "KOMAND_RECEIPT_KEYS", "KOMAND_VAULT_KEYS"])
def test_short_secrets_are_refused(settings: Settings, name: str) -> None:
    setattr(settings, name, "too-short")
    assert ids(checks.check_secrets(None)) == ["komand.E002"]


def test_one_secret_for_two_duties_is_refused(settings: Settings) -> None:
    settings.KOMAND_JWT_KEY = settings.SECRET_KEY
    assert ids(checks.check_secrets(None)) == ["komand.E003"]


def test_rotated_vault_keys_are_looked_at_one_by_one(settings: Settings) -> None:
    settings.KOMAND_VAULT_KEYS = f"{'n' * 40},{'o' * 40}"
    assert checks.check_secrets(None) == []


def test_a_public_address_without_tls_is_advised_against(settings: Settings) -> None:
    settings.KOMAND_PUBLIC_URL = "http://komand.example.com"
    assert ids(checks.check_transport(None)) == ["komand.W001"]


def test_letting_every_host_name_in_is_refused(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assert ids(checks.check_hosts(None)) == ["komand.E004"]


def test_anchors_go_where_they_can_and_to_urls_with_a_secret_alone(settings: Settings) -> None:
    for target in ("", "file:/var/log/komand-audit", "syslog:", "syslog:log.example.com:514"):
        settings.KOMAND_AUDIT_ANCHOR = target
        assert checks.check_audit_anchor(None) == []
    for target in ("file:relative", "ftp://example.com", "syslog:host:x"):
        settings.KOMAND_AUDIT_ANCHOR = target
        assert ids(checks.check_audit_anchor(None)) == ["komand.E005"]
    settings.KOMAND_AUDIT_ANCHOR = "https://audit.example.com/komand"
    assert ids(checks.check_audit_anchor(None)) == ["komand.E006"]
    settings.KOMAND_AUDIT_ANCHOR_SECRET = make_secret()
    assert checks.check_audit_anchor(None) == []


def test_prepare_runs_all_checks_of_settings() -> None:
    """It runs those with the tag `security`."""
    ours = [check for check in registry.get_checks() if check.__module__ == checks.__name__]
    assert ours and all(Tags.security in check.tags for check in ours)  # type: ignore[attr-defined]


def test_the_code_passes_all_checks_of_django(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    assert [message for message in run_checks() if message.is_serious()] == []
