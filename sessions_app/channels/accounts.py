"""Channel accounts: added, changed, found and turned into adapters. The only place that opens their secrets."""

import asyncio
import contextvars
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from agents_app import selectors as agents
from audit_app import services as audit
from audit_app.kernel.errors import AppError, Conflict, InvalidInput, NotFound
from sessions_app.channels.base import AccountSettings, ChannelAdapter, Checked
from sessions_app.channels.registry import channels
from sessions_app.models import ChannelAccount
from tools_app.secrets import credentials, vault
from tools_app.secrets.vault import SealError


class Adapters:
    """Adapters by account, each made once and again when its account is changed."""

    def __init__(self, *, connects: bool = True) -> None:
        """connects: there are connections to be closed when an adapter is replaced."""
        self._connects = connects
        self._made: dict[UUID, tuple[object, ChannelAdapter]] = {}
        self._replaced: list[tuple[float, ChannelAdapter]] = []

    def get(self, account: ChannelAccount) -> ChannelAdapter:
        """Raises InvalidInput, SealError or NotFound when the account cannot be used as it is stored."""
        version, adapter = self._made.get(account.pk, (None, None))
        if adapter is None or version != account.updated_at:
            made = make_adapter(account)
            if adapter is not None and self._connects:
                self._replaced.append((time.monotonic(), adapter))
            self._made[account.pk] = (account.updated_at, adapter := made)
        return adapter

    async def close_replaced(self, after_seconds: float) -> None:
        """Close those that were replaced so long ago that nothing is sent by them any more."""
        edge = time.monotonic() - after_seconds
        while self._replaced and self._replaced[0][0] <= edge:
            await self._replaced.pop(0)[1].aclose()

    async def aclose(self) -> None:
        for _, adapter in self._made.values():
            await adapter.aclose()
        self._made.clear()
        await self.close_replaced(0.0)


# For what is pure: verifying, parsing, rendering. Whatever sends has its own, on its own loop.
pure = Adapters(connects=False)


def make_adapter(account: ChannelAccount) -> ChannelAdapter:
    """A new adapter. Raises InvalidInput, SealError, NotFound (the channel is not registered, or a credential is
    missing that one of its secrets names)."""
    secrets = _resolved(str(account), _secrets_of(account))
    return channels.get(account.channel)(settings_for(account.channel, account.account_id, account.config, secrets))


def credential_changed(name: str, owner_id: int | None) -> None:
    """Have every account that uses this credential made anew, in whatever process, at its next use."""
    for account in ChannelAccount.objects.exclude(secrets_sealed="") if owner_id is None else ():
        if name in _credentials_of(account):
            ChannelAccount.objects.filter(pk=account.pk).update(updated_at=timezone.now())


def _credentials_of(account: ChannelAccount) -> set[str]:
    try:
        secrets = _secrets_of(account).values()
    except AppError:  # it cannot be used anyway, which is told where it is used
        return set()
    return {name for secret in secrets for name in credentials.find_references(secret)}


def _secrets_of(account: ChannelAccount) -> dict[str, str]:
    stored: dict[str, str] = json.loads(vault.unseal(account.secrets_sealed)) if account.secrets_sealed else {}
    return stored


def _resolved(account: str, secrets: Mapping[str, str]) -> Mapping[str, str]:
    """The secrets with the credentials that they name, which are the installation's."""
    if not any(map(credentials.find_references, secrets.values())):
        return secrets
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _look_up(account, secrets)
    # A sender on its event loop, once after each change: the database must not be reached from there.
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(contextvars.copy_context().run, _look_up_apart, account, secrets).result()


def _look_up_apart(account: str, secrets: Mapping[str, str]) -> dict[str, str]:
    try:
        return _look_up(account, secrets)
    finally:
        connection.close()


def _look_up(account: str, secrets: Mapping[str, str]) -> dict[str, str]:
    resolve = credentials.resolve_references
    return {name: resolve(secret, owner_id=None, purpose=f"channel {account}") for name, secret in secrets.items()}


def settings_for(
    channel: str, account_id: str, config: Mapping[str, Any], secrets: Mapping[str, str]
) -> AccountSettings:
    return AccountSettings(
        account_id,
        config,
        secrets,
        public_url=webhook_url(channel, account_id),
        reachable=frozenset(target.lower() for target in settings.KOMAND_CALLBACK_ALLOW_PRIVATE),
    )


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
        channel=channel,
        account_id=account_id,
        config=dict(config),
        agent=agents.get_agent(agent_id) if agent_id else None,
        access=access,
        allowed_senders=[str(sender) for sender in allowed_senders],
    )
    account.secrets_sealed = sealed_secrets(account, {**secrets, **made})
    try:
        account.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError as error:
        told = [f"{name.replace('_', ' ')}: {text}" for name, texts in error.message_dict.items() for text in texts]
        raise InvalidInput(" ".join(told), code="bad_account") from None
    try:
        with transaction.atomic():
            account.save(force_insert=True)
            audit.record("ChannelAccountCreated", details={"account": str(account), "access": access})
    except IntegrityError:
        raise Conflict(f"There is an account {account} already.", code="account_exists") from None
    return account, made


def change_account(
    account: ChannelAccount,
    *,
    config: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
    agent_id: str = "",
    access: str = "",
    allowed_senders: Sequence[str] = (),
) -> None:
    """Replace what is given; secrets are added to those there are, an empty one removes what it names.

    Raises InvalidInput, NotFound (unknown agent).
    """
    account.config = dict(account.config if config is None else config)
    account.secrets_sealed = sealed_secrets(account, secrets or {})
    account.agent = agents.get_agent(agent_id) if agent_id else account.agent
    account.access = access or account.access
    account.allowed_senders = [str(sender) for sender in allowed_senders] or account.allowed_senders
    with transaction.atomic():
        account.save()
        audit.record("ChannelAccountUpdated", details={"account": str(account), "secrets": sorted(secrets or {})})


def try_out(account: ChannelAccount) -> tuple[str, ...]:
    """Try an account against its platform, registering our webhook there where that is possible; what came of it, in
    lines for the operator. What the platform told is kept. Raises SendError and what making an adapter raises."""
    try:
        checked = _check(account)
    except AppError as error:
        note_error(account, error.message)
        raise
    stored = get_account(account.channel, account.account_id)  # it may have been changed while it was tried
    if any(stored.config.get(name) != value for name, value in checked.learned.items()):
        change_account(stored, config={**stored.config, **checked.learned})
    ChannelAccount.objects.filter(pk=account.pk).update(last_error="", last_error_at=None)
    return checked.lines


@async_to_sync
async def _check(account: ChannelAccount) -> Checked:
    adapter = make_adapter(account)
    try:
        return await adapter.check()
    finally:
        await adapter.aclose()


def missing_secrets(channel: str, given: Mapping[str, str]) -> dict[str, str]:
    """Secrets that the channel has us make when nobody gives them. Raises NotFound."""
    return {name: secret for name, secret in channels.get(channel).make_secrets().items() if name not in given}


def sealed_secrets(account: ChannelAccount, new: Mapping[str, str]) -> str:
    """The account's secrets with new ones added, sealed; an empty one removes it. Raises InvalidInput when an adapter
    cannot be made from them and the account's configuration, and what `kept_secrets` raises."""
    whole = {name: str(secret) for name, secret in {**kept_secrets(account, new), **new}.items() if secret}
    usable = _resolved(str(account), whole)
    channels.get(account.channel)(settings_for(account.channel, account.account_id, account.config, usable))
    return vault.seal(json.dumps(whole))


def kept_secrets(account: ChannelAccount, new: Mapping[str, str]) -> dict[str, str]:
    """Those stored that new ones do not take the place of. None that cannot be opened any more, when there are new ones
    for them. Raises SealError when there are not."""
    try:
        stored = _secrets_of(account)
    except SealError:
        if not any(new.values()):
            raise
        return {}
    return {name: secret for name, secret in stored.items() if name not in new}


def leads_elsewhere(account: ChannelAccount, config: Mapping[str, Any]) -> bool:
    """Whether this configuration has another address in it than the account's own."""
    kinds = channels.get(account.channel).config_fields
    return any(account.config.get(name) != config.get(name) for name, kind in kinds.items() if kind.kind == "url")


def secret_names(account: ChannelAccount) -> tuple[str, ...]:
    """Which secrets are stored. Raises SealError."""
    return tuple(sorted(_secrets_of(account)))


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


def note_sent(account: ChannelAccount) -> None:
    """Keep when the platform last took something."""
    ChannelAccount.objects.filter(pk=account.pk).update(last_sent_at=timezone.now())


def checked_json_object(text: str, noun: str) -> dict[str, Any]:
    """A JSON object as an operator gave it. Raises InvalidInput."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{noun}: no JSON ({error}).") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{noun}: a JSON object is needed.")
    return value
