"""System checks: settings that are unsafe or cannot work stop the start (`manage.py check`, `prepare`)."""

import ipaddress
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as Advice

from audit_app.chain import anchors
from komand.settings import env
from sessions_app.platforms.signatures import BadKeyError, check_key

_SHORTEST_SECRET = 32
_SECRETS = {
    "SECRET_KEY": "KOMAND_SECRET_KEY",
    "KOMAND_VAULT_KEYS": "KOMAND_VAULT_KEYS",
    "KOMAND_RECEIPT_KEYS": "KOMAND_RECEIPT_KEYS",
    "KOMAND_JWT_KEY": "KOMAND_JWT_KEY",
}


def is_public(host: str) -> bool:
    """Return whether a host name or address can be reached from another machine."""
    name = host.strip("[]").lower()
    if name in ("localhost", "") or name.endswith(".localhost"):
        return False
    try:
        return not ipaddress.ip_address(name).is_loopback
    except ValueError:
        return True


@register(Tags.security)
def check_debug(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Refuse debug mode on a public address: Django's debug pages show settings and source code."""
    hosts = [*settings.ALLOWED_HOSTS, env.text("KOMAND_HOST", "127.0.0.1")]
    public = sorted({host for host in hosts if is_public(host)})
    if not (settings.DEBUG and public):
        return []
    return [
        Error(
            f"KOMAND_DEBUG is on while {', '.join(public)} can be reached from outside.",
            hint="Set KOMAND_DEBUG=false.",
            id="komand.E001",
        )
    ]


@register(Tags.security)
def check_secrets(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Require a secret of its own, of sufficient length, for each purpose."""
    values = {variable: str(getattr(settings, name)) for name, variable in _SECRETS.items()}
    found: list[CheckMessage] = [
        Error(
            f"{variable} is shorter than {_SHORTEST_SECRET} characters.",
            hint="Unset it: a random one is generated in the data folder.",
            id="komand.E002",
        )
        for variable, value in values.items()
        if any(len(part) < _SHORTEST_SECRET for part in value.split(","))
    ]
    if len(set(values.values())) < len(values):
        found.append(
            Error("Two secrets have the same value.", hint=f"Give {', '.join(values)} one each.", id="komand.E003")
        )
    return found


@register(Tags.security)
def check_transport(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Warn if a public installation is reached without TLS."""
    parts = urlsplit(settings.KOMAND_PUBLIC_URL)
    if parts.scheme != "http" or not is_public(parts.hostname or ""):
        return []
    return [
        Advice(
            "KOMAND_PUBLIC_URL is not https: passwords are sent unencrypted.",
            hint="Put a TLS proxy in front.",
            id="komand.W001",
        )
    ]


@register(Tags.security)
def check_hosts(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Warn about `*` as an allowed host, which permits DNS rebinding."""
    if "*" not in settings.ALLOWED_HOSTS:
        return []
    return [
        Error(
            "KOMAND_ALLOWED_HOSTS is *: every host name is accepted.",
            hint="List the host names of this installation.",
            id="komand.E004",
        )
    ]


@register(Tags.security)
def check_audit_anchor(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Refuse a target of anchors that cannot be used, and a URL without the secret that signs its requests."""
    target = str(settings.KOMAND_AUDIT_ANCHOR)
    found: list[CheckMessage] = []
    if problem := anchors.find_problem(target):
        found.append(Error(f"KOMAND_AUDIT_ANCHOR is not valid. {problem}", id="komand.E005"))
    if target.startswith("http"):
        try:
            check_key(str(settings.KOMAND_AUDIT_ANCHOR_SECRET), is_public=False)
        except BadKeyError as error:
            hint = "Set a Standard Webhooks secret, whsec_ and 24 to 64 bytes in base64."
            found.append(Error(f"KOMAND_AUDIT_ANCHOR_SECRET is not valid. {error}", hint=hint, id="komand.E006"))
    return found
