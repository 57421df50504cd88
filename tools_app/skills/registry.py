"""The registry of skills: published versions, and installs with granted permissions. Synchronous."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet

from audit_app import services as audit
from audit_app.kernel import context
from audit_app.kernel.errors import Conflict, Forbidden, InvalidInput, found
from tools_app.models import Skill, SkillInstall, SkillVersion
from tools_app.skills.manifest import Manifest, digest_of, is_signed, read_manifest
from tools_app.skills.permissions import BadPermission, Permission, missing, read_permission
from tools_app.skills.versions import order

MOST_SKILLS = 10_000


@dataclass(frozen=True)
class SkillView:
    """A version of a skill.

    data: the manifest as published.
    versions: all versions, newest first.
    """

    manifest: Manifest
    data: Mapping[str, Any]
    digest: str
    is_verified: bool
    versions: tuple[str, ...]
    created_at: datetime


@dataclass(frozen=True)
class InstallView:
    """A skill installed for an agent. lacking: required permissions not granted; then it cannot be called."""

    agent_id: str
    skill_id: str
    version: str
    granted: tuple[Permission, ...]
    lacking: tuple[Permission, ...]
    owner_id: int | None
    installed_at: datetime


def register(data: Mapping[str, Any]) -> tuple[SkillView, bool]:
    """Publish a version. Owns its transaction. Idempotent. Returns the version, and whether it is new.

    Raises InvalidInput (bad_manifest), Conflict: version_exists (a version never changes), foreign_skill (the id
    belongs to another publisher), too_many_skills.
    """
    manifest, digest = read_manifest(data), digest_of(data)
    try:
        with transaction.atomic():
            return _view(_registered(manifest, dict(data), digest)), True
    except IntegrityError:
        row = SkillVersion.objects.select_related("skill").filter(
            skill__skill_id=manifest.skill_id, version=manifest.version, digest=digest
        )
        if same := row.first():
            return _view(same), False
        problem = f"{manifest.skill_id} {manifest.version} is already published with other content."
        raise Conflict(f"{problem} Publish a new version.", code="version_exists") from None


def _skill_of(manifest: Manifest) -> Skill:
    """Return the locked skill, or a new one that is not saved yet."""
    skill = Skill.objects.select_for_update(no_key=True).filter(skill_id=manifest.skill_id).first()
    if skill is None:
        if Skill.objects.count() >= MOST_SKILLS:
            raise Conflict(f"The registry already has {MOST_SKILLS} skills.", code="too_many_skills")
        return Skill(skill_id=manifest.skill_id, publisher_id=manifest.publisher_id)
    if skill.publisher_id != manifest.publisher_id:
        raise Conflict(f"{skill.skill_id} belongs to the publisher {skill.publisher_id}.", code="foreign_skill")
    return skill


def _registered(manifest: Manifest, data: dict[str, Any], digest: str) -> SkillVersion:
    skill = _skill_of(manifest)
    if not skill.latest_version or order(manifest.version) >= order(skill.latest_version):
        skill.latest_version, skill.category = manifest.version, manifest.category
        skill.name, skill.description = manifest.name, manifest.description
    skill.save()
    row = SkillVersion.objects.create(
        skill=skill,
        version=manifest.version,
        kind=manifest.kind.value,
        manifest=data,
        digest=digest,
        is_signed=is_signed(manifest, digest),
        registered_by=context.actor.get(),
    )
    details = {"skill": skill.skill_id, "version": row.version, "publisher": skill.publisher_id, "digest": digest}
    audit.record("SkillRegistered", details=details)
    return row


def delete_skill(skill_id: str) -> None:
    """Delete a skill with all its versions. Owns its transaction. Raises NotFound, Conflict (skill_in_use)."""
    with transaction.atomic():
        skill = _skill(skill_id)
        agents = list(skill.installs.values_list("agent_id", flat=True)[:5])
        if agents:
            raise Conflict(f"{skill_id} is installed for {', '.join(agents)}.", code="skill_in_use")
        skill.delete()
        audit.record("SkillDeleted", details={"skill": skill_id})


def list_skills(
    *, publisher_id: str = "", category: str = "", verified_only: bool = False, limit: int = 50, offset: int = 0
) -> tuple[tuple[SkillView, ...], int]:
    """Return the newest version of each skill, by id, and the total number of matching skills."""
    rows = SkillVersion.objects.select_related("skill").filter(version=F("skill__latest_version"))
    if publisher_id:
        rows = rows.filter(skill__publisher_id=publisher_id)
    if category:
        rows = rows.filter(skill__category=category)
    if verified_only:
        rows = rows.filter(is_signed=True, skill__publisher_id__in=settings.KOMAND_TRUSTED_PUBLISHERS)
    page = rows.order_by("skill__skill_id")[offset : offset + limit]
    return tuple(_view(row) for row in page), rows.count()


def get_skill(skill_id: str, version: str = "") -> SkillView:
    """Return a version of a skill, by default the newest. Raises NotFound (unknown_skill, unknown_version)."""
    return _view(_version(skill_id, version))


def known_ids(skill_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the ids that are in the registry."""
    return tuple(Skill.objects.filter(skill_id__in=list(skill_ids)).values_list("skill_id", flat=True))


def install(
    agent_id: str, skill_id: str, *, version: str = "", granted: Sequence[Any] | None = None, owner_id: int | None
) -> InstallView:
    """Install a skill for an agent, replacing another version. Owns its transaction.

    granted: permissions in either notation; None for all required ones.
    owner_id: the user whose credentials it uses; None for the installation's.
    Raises NotFound, InvalidInput (bad_permission), Forbidden (permission_missing) if the granted permissions do not
    cover the required ones.
    """
    with transaction.atomic():
        row = _version(skill_id, version)
        manifest = load_manifest(row.pk)
        given = manifest.required if granted is None else read_permissions(granted)
        if lacking := missing(manifest.required, given):
            raise Forbidden(
                f"{skill_id} requires permissions that are not granted: {', '.join(map(str, lacking))}.",
                code="permission_missing",
                missing=[str(permission) for permission in lacking],
            )
        installed, _ = SkillInstall.objects.update_or_create(
            agent_id=agent_id,
            skill=row.skill,
            defaults={"version": row, "granted": [str(permission) for permission in given], "owner_id": owner_id},
        )
        _note("SkillInstalled", installed)
        return _install_view(installed)


def change_grants(agent_id: str, skill_id: str, granted: Sequence[Any]) -> InstallView:
    """Replace the granted permissions of an installed skill. Owns its transaction.

    Calls are refused while required permissions are missing. Raises NotFound, InvalidInput (bad_permission).
    """
    with transaction.atomic():
        installed = _installed(agent_id, skill_id)
        installed.granted = [str(permission) for permission in read_permissions(granted)]
        installed.save(update_fields=["granted", "updated_at"])
        _note("SkillGrantsChanged", installed)
        return _install_view(installed)


def uninstall(agent_id: str, skill_id: str) -> None:
    """Remove a skill from an agent. Owns its transaction. Raises NotFound (not_installed)."""
    with transaction.atomic():
        installed = _installed(agent_id, skill_id)
        _note("SkillUninstalled", installed)
        installed.delete()


def list_installs(agent_id: str) -> tuple[InstallView, ...]:
    rows = SkillInstall.objects.select_related("skill", "version").filter(agent_id=agent_id)
    return tuple(_install_view(row) for row in rows.order_by("skill__skill_id"))


def get_install(agent_id: str, skill_id: str) -> InstallView:
    """Return a skill installed for the agent. Raises NotFound (not_installed)."""
    return _install_view(_installed(agent_id, skill_id))


@lru_cache(maxsize=512)
def load_manifest(version_id: UUID) -> Manifest:
    """Return the manifest of a version. Cached: a version never changes."""
    return read_manifest(SkillVersion.objects.values_list("manifest", flat=True).get(pk=version_id))


def is_verified(row: SkillVersion) -> bool:
    """Return whether the version still matches its signature, and its publisher is trusted by this installation."""
    manifest = load_manifest(row.pk)
    return manifest.publisher_id in settings.KOMAND_TRUSTED_PUBLISHERS and is_signed(manifest, digest_of(row.manifest))


def read_permissions(values: Iterable[Any]) -> tuple[Permission, ...]:
    """Return permissions in either notation, without duplicates. Raises InvalidInput (bad_permission)."""
    try:
        return tuple(dict.fromkeys(read_permission(value) for value in values))
    except BadPermission as error:
        raise InvalidInput(str(error), code="bad_permission") from None


def _skill(skill_id: str) -> Skill:
    skill = Skill.objects.filter(skill_id=skill_id).first()
    return found(skill, f"There is no skill {skill_id!r}.", code="unknown_skill")


def _version(skill_id: str, version: str) -> SkillVersion:
    skill = _skill(skill_id)
    rows: QuerySet[SkillVersion] = skill.versions.select_related("skill")
    row = rows.filter(version=version or skill.latest_version).first()
    return found(row, f"There is no version {version!r} of {skill_id}.", code="unknown_version")


def _installed(agent_id: str, skill_id: str) -> SkillInstall:
    rows = SkillInstall.objects.select_related("skill", "version").filter(agent_id=agent_id, skill__skill_id=skill_id)
    return found(rows.first(), f"The agent {agent_id!r} has no skill {skill_id!r}.", code="not_installed")


def _view(row: SkillVersion) -> SkillView:
    versions = row.skill.versions.values_list("version", flat=True)
    ordered = tuple(sorted(versions, key=order, reverse=True))
    return SkillView(load_manifest(row.pk), row.manifest, row.digest, is_verified(row), ordered, row.created_at)


def _install_view(row: SkillInstall) -> InstallView:
    given = read_permissions(row.granted)
    return InstallView(
        agent_id=row.agent_id,
        skill_id=row.skill.skill_id,
        version=row.version.version,
        granted=given,
        lacking=missing(load_manifest(row.version_id).required, given),
        owner_id=row.owner_id,
        installed_at=row.installed_at,
    )


def _note(action: str, row: SkillInstall) -> None:
    details = {"skill": row.skill.skill_id, "version": row.version.version, "granted": row.granted}
    audit.record(action, details=details, agent_id=row.agent_id)
