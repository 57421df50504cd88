"""Channel accounts: added, changed, found and turned into adapters. The only place that opens their secrets."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents_app import selectors as agents
from audit_app import services as audit
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from sessions_app.channels.base import AccountSettings, ChannelAdapter
from sessions_app.channels.registry import channels
from sessions_app.models import ChannelAccount
from tools_app.trust import vault


class Adapters:
    """Adapters by account, each made once and again when its account is changed."""

    def __init__(self) -> None:
        self._made: dict[UUID, tuple[object, ChannelAdapter]] = {}

    def get(self, account: ChannelAccount) -> ChannelAdapter:
        """Raises InvalidInput, SealError or NotFound when the account cannot be used as it is stored."""
        version, adapter = self._made.get(account.pk, (None, None))
        if adapter is None or version != account.updated_at:
            adapter = make_adapter(account)
            self._made[account.pk] = (account.updated_at, adapter)
        return adapter

    async def aclose(self) -> None:
        for _, adapter in self._made.values():
            await adapter.aclose()
        self._made.clear()


# For what is pure: verifying, parsing, rendering. Whatever sends has its own, on its own loop.
pure = Adapters()


def make_adapter(account: ChannelAccount) -> ChannelAdapter:
    """A new adapter. Raises InvalidInput, SealError, NotFound (the channel is not registered)."""
    secrets = json.loads(vault.unseal(account.secrets_sealed)) if account.secrets_sealed else {}
    return channels.get(account.channel)(settings_for(account.channel, account.account_id, account.config, secrets))


def settings_for(
    channel: str, account_id: str, config: Mapping[str, Any], secrets: Mapping[str, str]
) -> AccountSettings:
    return AccountSettings(
        account_id, config, secrets, public_url=webhook_url(channel, account_id),
        reachable=frozenset(target.lower() for target in settings.KOMAND_CALLBACK_ALLOW_PRIVATE),
    )  # fmt: skip


def webhook_url(channel: str, account_id: str) -> str:
    """Where the platform reaches us; a path alone when the installation does not know its own address."""
    return f"{getattr(settings, 'KOMAND_PUBLIC_URL', '')}/channels/{channel}/{account_id}/webhook"


def find_account(channel: str, account_id: str) -> ChannelAccount | None:
    """An account that is in use, with its agent."""
    rows = ChannelAccount.objects.select_related("agent")
    return rows.filter(channel=channel, account_id=account_id, is_enabled=True).first()


def get_account(channel: str, account_id: str) -> ChannelAccount:
    """In use or not. Raises NotFound."""
    account = ChannelAccount.objects.select_related("agent").filter(channel=channel, account_id=account_id).first()
    if account is None:
        raise NotFound(f"There is no account {channel}/{account_id}.")
    return account


def add_account(
    channel: str,
    account_id: str,
    *,
    config: Mapping[str, Any],
    secrets: Mapping[str, str],
    agent_id: str = "",
    access: str = "paired",
    allowed_senders: Sequence[str] = (),
) -> tuple[ChannelAccount, Mapping[str, str]]:
    """A new account, and the secrets that were made for it, which nobody sees again.

    Raises NotFound (unknown channel or agent), InvalidInput (bad_account), Conflict (account_exists).
    """
    made = missing_secrets(channel, secrets)
    account = ChannelAccount(
        channel=channel, account_id=account_id, config=dict(config),
        agent=agents.get_agent(agent_id) if agent_id else None, access=access,
        allowed_senders=[str(sender) for sender in allowed_senders],
    )  # fmt: skip
    account.secrets_sealed = sealed_secrets(account, {**secrets, **made})
    try:
        account.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError as error:
        raise InvalidInput(" ".join(error.messages), code="bad_account") from None
    try:
        with transaction.atomic():
            account.save(force_insert=True)
            audit.record("ChannelAccountCreated", details={"account": str(account), "access": access})
    except IntegrityError:
        raise Conflict(f"There is an account {account} already.", code="account_exists") from None
    return account, made


def change_account(
    account: ChannelAccount, *, config: Mapping[str, Any] | None = None, secrets: Mapping[str, str] | None = None
) -> None:
    """Replace configuration or add and replace secrets; an empty secret removes it. Raises InvalidInput."""
    account.config = dict(account.config if config is None else config)
    account.secrets_sealed = sealed_secrets(account, secrets or {})
    with transaction.atomic():
        account.save(update_fields=["config", "secrets_sealed", "updated_at"])
        audit.record("ChannelAccountUpdated", details={"account": str(account), "secrets": sorted(secrets or {})})


def missing_secrets(channel: str, given: Mapping[str, str]) -> dict[str, str]:
    """Secrets that the channel has us make when nobody gives them. Raises NotFound."""
    return {name: secret for name, secret in channels.get(channel).make_secrets().items() if name not in given}


def sealed_secrets(account: ChannelAccount, new: Mapping[str, str]) -> str:
    """The account's secrets with new ones added, sealed; an empty one removes it. Raises InvalidInput when an adapter
    cannot be made from them and the account's configuration."""
    stored = json.loads(vault.unseal(account.secrets_sealed)) if account.secrets_sealed else {}
    whole = {name: str(secret) for name, secret in {**stored, **new}.items() if secret}
    channels.get(account.channel)(settings_for(account.channel, account.account_id, account.config, whole))
    return vault.seal(json.dumps(whole))


def secret_names(account: ChannelAccount) -> tuple[str, ...]:
    """Which secrets are stored. Raises SealError."""
    return tuple(sorted(json.loads(vault.unseal(account.secrets_sealed)))) if account.secrets_sealed else ()


def set_enabled(account: ChannelAccount, is_enabled: bool, *, why: str = "") -> None:
    """Take an account into use or out of it: then nothing comes in, and what is to go out waits until it expires."""
    with transaction.atomic():
        now = timezone.now()
        rows = ChannelAccount.objects.filter(pk=account.pk).exclude(is_enabled=is_enabled)
        changed = rows.update(is_enabled=is_enabled, updated_at=now)
        if why:
            note_error(account, why)
        if changed:
            action = "ChannelAccountEnabled" if is_enabled else "ChannelAccountDisabled"
            audit.record(action, details={"account": str(account), "why": why})


def note_error(account: ChannelAccount, error: str) -> None:
    """Keep the last error for the operator's view."""
    rows = ChannelAccount.objects.filter(pk=account.pk)
    rows.update(last_error=error[:500], last_error_at=timezone.now())


def checked_json_object(text: str, noun: str) -> dict[str, Any]:
    """A JSON object as an operator gave it. Raises InvalidInput."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{noun} is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{noun} must be a JSON object.")
    return value
