"""Skills: published versions, and the version installed for each agent."""

from django.db import models

from audit_app.kernel.ids import new_id


class Skill(models.Model):
    """An entry of the registry. Name, description and category are those of the newest version."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    skill_id = models.CharField(
        max_length=57, unique=True, help_text="Public id: lower-case letters, digits and hyphens."
    )
    publisher_id = models.CharField(max_length=120)
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    category = models.CharField(max_length=60, blank=True)
    latest_version = models.CharField(max_length=60)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "komand_skill"
        ordering = ["skill_id"]

    def __str__(self) -> str:
        return self.skill_id


class SkillVersion(models.Model):
    """A version as published. Immutable."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    skill = models.ForeignKey(Skill, on_delete=models.CASCADE, related_name="versions")
    version = models.CharField(max_length=60)
    kind = models.CharField(max_length=12)
    manifest = models.JSONField()
    digest = models.CharField(max_length=80, help_text="Digest of the manifest: sha256 and 64 hex digits.")
    is_signed = models.BooleanField(help_text="Its signature hash matched the digest when it was registered.")
    registered_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "komand_skill_version"
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["skill", "version"], name="skill_version_once")]

    def __str__(self) -> str:
        return f"{self.skill} {self.version}"


class SkillInstall(models.Model):
    """A version of a skill installed for an agent, with the granted permissions."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    agent_id = models.CharField(max_length=120, help_text="Public id of the agent.")
    skill = models.ForeignKey(Skill, on_delete=models.CASCADE, related_name="installs")
    version = models.ForeignKey(SkillVersion, on_delete=models.PROTECT, related_name="installs")
    granted = models.JSONField(
        default=list, help_text="Granted permissions, as resource:access or resource:access:scope."
    )
    # Not a foreign key: if the user is deleted, it must not fall back to the installation's credentials.
    owner_id = models.BigIntegerField(
        null=True, blank=True, help_text="User whose credentials it uses. Empty: those of the installation."
    )
    installed_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "komand_skill_install"
        ordering = ["agent_id", "skill"]
        # also the list of an agent's skills, at each claim of one of its runs
        constraints = [models.UniqueConstraint(fields=["agent_id", "skill"], name="skill_once_per_agent")]

    def __str__(self) -> str:
        return f"{self.skill} for {self.agent_id}"
