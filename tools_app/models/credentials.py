"""Credentials: secrets that users and operators store for skills, servers, providers and channels to use by name."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from audit_app.kernel.ids import new_id


class Credential(models.Model):
    """A secret under a name, of its owner or, without an owner, of the installation.

    Only `credentials.use_credential` opens the value.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="Empty: the installation's, for model providers, channels and servers.",
    )
    name = models.CharField(max_length=120)
    value_sealed = models.TextField(editable=False)
    hosts = models.JSONField(
        default=list,
        blank=True,
        db_default=models.Value([], models.JSONField()),
        help_text="Hosts that calls may send it to, such as api.example.com or *.example.com:8443.",
    )
    agents = models.JSONField(
        default=list,
        blank=True,
        db_default=models.Value([], models.JSONField()),
        help_text="Public ids of the agents that may use it in runs of other users.",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    last_used_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "komand_credential"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="credential_name_of_owner"),
            models.UniqueConstraint(fields=["name"], condition=Q(owner=None), name="credential_name_shared"),
        ]

    def __str__(self) -> str:
        return self.name
