"""Credentials: stored, listed, deleted, and opened for a purpose, each with an entry in the audit log.

Values are returned by `use_credential` alone, and are masked from then on in everything this process logs.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from django.contrib.auth.models import AnonymousUser, User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from audit_app import services as audit
from audit_app.kernel import redact
from audit_app.kernel.errors import InvalidInput, NotFound
from audit_app.kernel.rules import check_row
from audit_app.rights import holds
from tools_app.models import Credential
from tools_app.rights import MANAGE_CREDENTIALS
from tools_app.secrets import vault
from tools_app.types.credential_use import find_references as find_references

# Masking shorter values would mask ordinary words.
LEAST_CHARACTERS = redact.LEAST_CHARACTERS
MOST_CHARACTERS = 64 * 1024

_REFERENCE = redact.CREDENTIAL_REFERENCE

# Called with the name and the owner's id, in the transaction that stores or deletes a credential, so that open
# connections that use it can be renewed.
on_change: list[Callable[[str, int | None], None]] = []


class UnknownCredential(NotFound):
    """There is no such credential."""

    code = "unknown_credential"


def store_credential(
    name: str, value: str, *, owner_id: int | None, hosts: Sequence[str] | None = None
) -> tuple[Credential, bool]:
    """Store a value under a name, replacing the existing one. Owns its transaction.

    owner_id: None for the installation.
    hosts: rules about hosts that calls may send it to; None keeps those of an existing one. Those of a user need at
        least one. One of the installation without hosts serves providers, channels, servers and skills alone.
    Returns the row, and whether it is new. Raises InvalidInput (bad_name, bad_value, hosts_required).
    """
    row = _rows(owner_id).filter(name=name).first() or Credential(owner_id=owner_id, name=name)
    if hosts is not None:
        row.hosts = hosts
    check_row(row)
    hosts = None if hosts is None else row.hosts
    if not LEAST_CHARACTERS <= len(value) <= MOST_CHARACTERS:
        limits = f"A credential must have {LEAST_CHARACTERS} to {MOST_CHARACTERS} characters"
        raise InvalidInput(f"{limits}: a shorter one could not be masked.", code="bad_value")
    redact.remember(value)
    sealed = vault.seal(value)
    try:
        with transaction.atomic():
            return _stored(name, sealed, owner_id, hosts)
    except IntegrityError:  # created by a concurrent request
        with transaction.atomic():
            return _stored(name, sealed, owner_id, hosts)


def share_credential(name: str, agents: Sequence[str], *, owner_id: int | None) -> Credential:
    """Let these agents, by public id, and no others use a credential in runs of users who do not own it.

    Owns its transaction. Raises UnknownCredential, InvalidInput.
    """
    row = Credential(name=name, agents=agents)
    check_row(row, fields=["agents"])
    with transaction.atomic():
        if not _rows(owner_id).filter(name=name).update(agents=row.agents, updated_at=Now()):
            raise UnknownCredential
        details = {"name": name, "owner": _owner(owner_id), "agents": row.agents}
        audit.record("CredentialShared", details=details)
    return _rows(owner_id).get(name=name)


def _stored(name: str, sealed: str, owner_id: int | None, hosts: Sequence[str] | None) -> tuple[Credential, bool]:
    bound = {} if hosts is None else {"hosts": list(hosts)}
    is_new = not _rows(owner_id).filter(name=name).update(value_sealed=sealed, updated_at=Now(), **bound)
    if is_new:
        Credential.objects.create(owner_id=owner_id, name=name, value_sealed=sealed, **bound)
    details = {"name": name, "owner": _owner(owner_id), "is_new": is_new, **bound}
    audit.record("CredentialStored", details=details)
    _notify(name, owner_id)
    return _rows(owner_id).get(name=name), is_new


def delete_credential(name: str, *, owner_id: int | None) -> None:
    """Delete a credential permanently. Owns its transaction. Raises UnknownCredential."""
    with transaction.atomic():
        if not _rows(owner_id).filter(name=name).delete()[0]:
            raise UnknownCredential
        audit.record("CredentialDeleted", details={"name": name, "owner": _owner(owner_id)})
        _notify(name, owner_id)


def use_credential(name: str, *, owner_id: int | None, purpose: str) -> str:
    """Return the value, for immediate use: never store, log or show it. Owns its transaction.

    owner_id: None for the installation's credential.
    purpose: for the audit log, such as `skill weather`.
    Raises UnknownCredential, SealError.
    """
    row = _rows(owner_id).filter(name=name).first()
    if row is None:
        raise UnknownCredential(f"There is no credential {name!r}. Store it, or name another one.")
    value = vault.unseal(row.value_sealed)
    redact.remember(value)
    with transaction.atomic():
        Credential.objects.filter(pk=row.pk).update(last_used_at=Now())
        audit.record("CredentialAccessed", details={"name": name, "owner": _owner(owner_id), "purpose": purpose})
    return value


def refuse_references(user: User | AnonymousUser, *texts: str) -> str:
    """Return why the user must not save texts that refer to the installation's credentials; empty if allowed.

    Anyone who may refer to a credential can have it sent to a server of their choice.
    """
    if holds(user, MANAGE_CREDENTIALS) or not any(map(find_references, texts)):
        return ""
    return f"Referring to a credential of the installation takes the right {MANAGE_CREDENTIALS.permission}."


def resolve_references(text: str, *, owner_id: int | None, purpose: str) -> str:
    """Return the text with each `{{credential:NAME}}` replaced by its value. As `use_credential`, for immediate use."""
    if "{{" not in text:
        return text
    use = partial(use_credential, owner_id=owner_id, purpose=purpose)
    return fill_references(text, {name: use(name) for name in find_references(text)})


def fill_references(text: str, values: Mapping[str, str]) -> str:
    """Return the text with each reference replaced by the value of that name."""
    return _REFERENCE.sub(lambda match: values[match[1]], text)


def list_credentials(owner_id: int | None) -> tuple[Credential, ...]:
    """Return the owner's credentials, by name."""
    return tuple(_rows(owner_id).order_by("name"))


def get_credential(name: str, *, owner_id: int | None) -> Credential:
    """Return a credential's row. Raises UnknownCredential."""
    if (row := _rows(owner_id).filter(name=name).first()) is None:
        raise UnknownCredential
    return row


def _rows(owner_id: int | None) -> QuerySet[Credential]:
    return Credential.objects.filter(owner_id=owner_id)


def _owner(owner_id: int | None) -> str:
    return "installation" if owner_id is None else f"user:{owner_id}"


def _notify(name: str, owner_id: int | None) -> None:
    for notify in on_change:
        notify(name, owner_id)
