"""Channel accounts: adding, changing and finding them, and creating their adapters."""

import asyncio
import contextvars
import json
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import DatabaseError, IntegrityError, InterfaceError, connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents_app import selectors as agents
from audit_app import services as audit
from audit_app.kernel.errors import AppError, Conflict, InvalidInput, found
from audit_app.kernel.rules import check_row
from sessions_app import hot_queries
from sessions_app.models import ChannelAccount, ChannelConnection
from sessions_app.platforms.account_settings import AccountSettings
from sessions_app.platforms.base import ChannelAdapter, Checked
from sessions_app.platforms.messages import Capabilities, Chat
from sessions_app.platforms.registry import channels, get_adapter
from tools_app.secrets import credentials, vault
from tools_app.secrets.vault import SealError


class Adapters:
    """A cache of adapters by account. An adapter is replaced when its account has changed."""

    def __init__(self, *, connects: bool = True) -> None:
        """connects: the adapters open connections, which must be closed when they are replaced."""
        self._connects = connects
        self._made: dict[UUID, tuple[object, ChannelAdapter]] = {}
        self._replaced: list[tuple[float, ChannelAdapter]] = []

    def get(self, account: ChannelAccount) -> ChannelAdapter:
        """Return the account's adapter. Raises what `make_adapter` raises."""
        version, adapter = self._made.get(account.pk, (None, None))
        if adapter is None or version != account.updated_at:
            made = make_adapter(account)
            if adapter is not None and self._connects:
                self._replaced.append((time.monotonic(), adapter))
            self._made[account.pk] = (account.updated_at, adapter := made)
        return adapter

    def capabilities(self, account: ChannelAccount, chat: Chat) -> Capabilities | None:
        """Return the capabilities in a chat, None if the account or its adapter is broken. Raises database errors."""
        try:
            return self.get(account).capabilities(chat)
        except (DatabaseError, InterfaceError):
            raise
        except Exception:  # it must not hold up others; the sender reports the error
            return None

    async def close_replaced(self, after_seconds: float) -> None:
        """Close adapters that were replaced that long ago: none of their sends is still under way."""
        edge = time.monotonic() - after_seconds
        while self._replaced and self._replaced[0][0] <= edge:
            await self._replaced.pop(0)[1].aclose()

    async def aclose(self) -> None:
        for _, adapter in self._made.values():
            await adapter.aclose()
        self._made.clear()
        await self.close_replaced(0.0)


# For verifying, parsing and rendering. What sends has adapters of its own, on its own loop.
pure = Adapters(connects=False)


def make_adapter(account: ChannelAccount) -> ChannelAdapter:
    """Create an account's adapter.

    Raises InvalidInput (bad_account), SealError, NotFound (unknown channel, or a credential that a secret refers to is
    missing).
    """
    return _make_adapter(account, _secrets_of(account))


def _make_adapter(account: ChannelAccount, secrets: Mapping[str, str]) -> ChannelAdapter:
    resolved = _resolved(str(account), secrets)
    return get_adapter(account.channel)(settings_of(account.channel, account.account_id, account.config, resolved))


def settings_of(
    channel: str, account_id: str, config: Mapping[str, Any], secrets: Mapping[str, str]
) -> AccountSettings:
    """Return what an adapter is created from, of an account that may not exist yet."""
    reachable = frozenset(target.lower() for target in settings.KOMAND_CALLBACK_ALLOW_PRIVATE)
    return AccountSettings(account_id, config, secrets, webhook_url(channel, account_id), reachable)


def credential_changed(name: str, owner_id: int | None) -> None:
    """Have every process create new adapters for the accounts that use this credential. In the caller's transaction."""
    for account in ChannelAccount.objects.exclude(secrets_sealed="") if owner_id is None else ():
        if name in _credentials_of(account):
            ChannelAccount.objects.filter(pk=account.pk).update(updated_at=timezone.now())


def _credentials_of(account: ChannelAccount) -> set[str]:
    try:
        secrets = _secrets_of(account).values()
    except AppError:  # the error is reported where the account is used
        return set()
    return {name for secret in secrets for name in credentials.find_references(secret)}


def _secrets_of(account: ChannelAccount) -> dict[str, str]:
    return dict(json.loads(vault.unseal(account.secrets_sealed))) if account.secrets_sealed else {}


def _resolved(account: str, secrets: Mapping[str, str]) -> Mapping[str, str]:
    """Return the secrets with references replaced by the installation's credentials."""
    if not any(map(credentials.find_references, secrets.values())):
        return secrets
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _look_up(account, secrets)
    # On a sender's event loop, once after each change: the database must not be used on that thread.
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


def webhook_url(channel: str, account_id: str) -> str:
    """Return the account's webhook address; only its path if KOMAND_PUBLIC_URL is empty."""
    return f"{settings.KOMAND_PUBLIC_URL}/channels/{channel}/{account_id}/webhook"


def find_account(channel: str, account_id: str) -> ChannelAccount | None:
    """Return an enabled account with the agent, or None."""
    return hot_queries.FIND_ENABLED_ACCOUNT.first(channel=channel, account_id=account_id)


def find_accounts(channel: str, account_ids: Collection[str]) -> QuerySet[ChannelAccount]:
    """Return those of the accounts that are enabled, each with the agent."""
    rows = ChannelAccount.objects.select_related("agent")
    return rows.filter(channel=channel, account_id__in=account_ids, is_enabled=True)


def find_routed(account: ChannelAccount, setting: str, value: str) -> tuple[ChannelAccount, ChannelAdapter] | None:
    """Return the enabled account of the same channel with this value of a setting, and its adapter; None if none.

    The account itself is preferred. One with unusable settings is not returned.
    """
    rows = ChannelAccount.objects.select_related("agent").filter(channel=account.channel, is_enabled=True)
    found = [row for row in rows if setting and str(row.config.get(setting, "")) == value]
    for row in sorted(found, key=lambda row: row.pk != account.pk):
        with suppress(AppError):
            return row, pure.get(row)
    return None


def get_account(channel: str, account_id: str) -> ChannelAccount:
    """Return an account with the agent, enabled or not. Raises NotFound."""
    account = ChannelAccount.objects.select_related("agent").filter(channel=channel, account_id=account_id).first()
    return found(account, f"There is no account {channel}/{account_id}.")


def add_account(
    channel: str,
    account_id: str,
    *,
    config: Mapping[str, Any],
    secrets: Mapping[str, str],
    agent_id: str = "",
    **fields: Any,
) -> tuple[ChannelAccount, Mapping[str, str]]:
    """Add an account. Owns its transaction. Returns it with the generated secrets that the operator needs, shown once.

    fields: `access` (default: paired), `allowed_senders`, `tools`, `messages_per_day`.
    Raises NotFound (unknown channel or agent), InvalidInput (bad_account), Conflict (account_exists).
    """
    made = missing_secrets(channel, secrets)
    agent = agents.get_agent(agent_id) if agent_id else None
    account = ChannelAccount(channel=channel, account_id=account_id, config=dict(config), agent=agent, **fields)
    account.secrets_sealed = sealed_secrets(account, {**secrets, **made})
    check_row(account, code="bad_account")
    try:
        with transaction.atomic():
            account.save(force_insert=True)
            audit.record("ChannelAccountCreated", details={"account": str(account), "access": account.access})
    except IntegrityError:
        raise Conflict(f"The account {account} already exists.", code="account_exists") from None
    return account, shown_once(channel, made)


def shown_once(channel: str, made: Mapping[str, str]) -> dict[str, str]:
    """Return those of the generated secrets that an operator enters elsewhere."""
    return {name: made[name] for name in channels.get(channel).shown_secrets if name in made}


def change_account(
    account: ChannelAccount,
    *,
    config: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
    agent_id: str = "",
    **fields: Any,
) -> None:
    """Change the given settings of an account. Owns its transaction.

    config: replaces the old one.
    secrets: merged into the old ones; an empty value removes the secret.
    fields: new values of `access`, `allowed_senders`, `tools`, `messages_per_day`. Raises InvalidInput, NotFound
        (unknown agent), SealError.
    """
    account.config = dict(account.config if config is None else config)
    account.secrets_sealed = sealed_secrets(account, secrets or {})
    account.agent = agents.get_agent(agent_id) if agent_id else account.agent
    for name, value in fields.items():
        setattr(account, name, value)
    if fields:  # an account of an older release may lack a list of tools, and must still take a new secret
        check_row(account, code="bad_account")
    with transaction.atomic():
        # Only these: the sender of deliveries may have disabled the account since it was read.
        account.save(update_fields=["config", "secrets_sealed", "agent", "updated_at", *fields])
        details = {"account": str(account), "secrets": sorted(secrets or {}), **fields}
        audit.record("ChannelAccountUpdated", details=details)


def try_out(account: ChannelAccount) -> Checked:
    """Test an account against the platform and register the webhook.

    Settings that the platform returned are stored; those that it offers are the operator's choice. Raises SendError
    and what `make_adapter` raises.
    """
    try:
        checked = _check(account)
    except AppError as error:
        note_error(account, error.message)
        raise
    stored = get_account(account.channel, account.account_id)  # it may have changed during the test
    if any(stored.config.get(name) != value for name, value in checked.learned.items()):
        change_account(stored, config={**stored.config, **checked.learned})
    ChannelAccount.objects.filter(pk=account.pk).update(last_error="", last_error_at=None)
    ChannelConnection.objects.filter(account_id=account.pk).update(attention_at=None)  # it is opened again
    return checked


@async_to_sync
async def _check(account: ChannelAccount) -> Checked:
    adapter = make_adapter(account)
    try:
        return await adapter.check()
    finally:
        await adapter.aclose()


def missing_secrets(channel: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return generated values for the secrets that were not given. Raises NotFound for an unknown channel."""
    return {name: secret for name, secret in channels.get(channel).make_secrets().items() if name not in given}


def sealed_secrets(account: ChannelAccount, new: Mapping[str, str]) -> str:
    """Return the account's secrets with new ones merged in, sealed; an empty value removes a secret.

    Raises InvalidInput if they and the configuration do not make an adapter, and what `kept_secrets` raises.
    """
    _check_transcription(account.config)
    whole = {name: str(secret) for name, secret in {**kept_secrets(account, new), **new}.items() if secret}
    _make_adapter(account, whole)
    return vault.seal(json.dumps(whole))


def _check_transcription(config: Mapping[str, Any]) -> None:
    chosen = config.get("transcription", "")
    if chosen not in ("", "off", "yes") and chosen not in agents.list_provider_names():
        problem = f"transcription must be off, yes or the name of a model provider: there is no provider {chosen!r}."
        raise InvalidInput(problem, code="bad_account")


def kept_secrets(account: ChannelAccount, new: Mapping[str, str]) -> dict[str, str]:
    """Return the stored secrets that are not replaced. Raises SealError if they cannot be unsealed, unless there are
    new ones: then the old ones are dropped."""
    try:
        stored = _secrets_of(account)
    except SealError:
        if not any(new.values()):
            raise
        return {}
    return {name: secret for name, secret in stored.items() if name not in new}


def sent_elsewhere(account: ChannelAccount, config: Mapping[str, Any], kept: Iterable[str]) -> list[str]:
    """Return which of these stored secrets the account would send to another address with this configuration."""
    adapter = channels.get(account.channel)
    addresses = (name for name, setting in adapter.config_fields.items() if setting.is_address or setting.kind == "url")
    is_moved = any(account.config.get(name) != config.get(name) for name in addresses)
    return sorted({*kept} - {*adapter.unsent_secrets}) if is_moved else []


def secret_names(account: ChannelAccount) -> tuple[str, ...]:
    """Return the names of the stored secrets. Raises SealError."""
    return tuple(sorted(_secrets_of(account)))


def set_enabled(account: ChannelAccount, is_enabled: bool, *, why: str = "") -> None:
    """Enable or disable an account. Owns its transaction. Deliveries of a disabled account wait until they expire."""
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
    """Store the last error, for operators."""
    rows = ChannelAccount.objects.filter(pk=account.pk)
    rows.update(last_error=error[:500], last_error_at=timezone.now())


def note_sent(account: ChannelAccount) -> None:
    """Store the time of the last successful send, for operators."""
    ChannelAccount.objects.filter(pk=account.pk).update(last_sent_at=timezone.now())


def checked_json_object(text: str, noun: str) -> dict[str, Any]:
    """Parse a JSON object that an operator entered. noun: names it in errors. Raises InvalidInput."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{noun} is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{noun} must be a JSON object.")
    return value
