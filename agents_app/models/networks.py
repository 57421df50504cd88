"""Stored definitions of networks."""

from django.core.validators import MaxLengthValidator
from django.db import models

from audit_app.kernel.ids import new_id

LONGEST_DEFINITION = 200_000  # characters


class StoredNetwork(models.Model):
    """A definition of a network under its name. Runs keep the definition with which they were started."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.SlugField(max_length=60, unique=True)
    version = models.PositiveIntegerField(default=1)
    description = models.CharField(max_length=300, blank=True)
    definition = models.TextField(
        validators=[MaxLengthValidator(LONGEST_DEFINITION)], help_text="YAML, see docs/networks.md."
    )
    owner_id = models.BigIntegerField(
        null=True, blank=True, help_text="User who created it. Empty: it belongs to the installation."
    )
    is_shared_with_everyone = models.BooleanField(
        "shared with everyone", default=False, help_text="Every user who may use all its agents may run it."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "komand_network"
        ordering = ["name"]
        verbose_name = "network"

    def __str__(self) -> str:
        return self.name


class NetworkVersion(models.Model):
    """A definition that a network had, with its number. Written once."""

    id = models.BigAutoField(primary_key=True)
    network = models.ForeignKey(StoredNetwork, on_delete=models.CASCADE, related_name="versions", db_index=False)
    number = models.PositiveIntegerField()
    definition = models.TextField()
    actor = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "komand_network_version"
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["network", "number"], name="network_version_once")]

    def __str__(self) -> str:
        return f"version {self.number}"
