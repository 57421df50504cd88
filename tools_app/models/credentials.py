"""Credentials: secrets that users and operators store for skills, servers, providers and channels to use by name."""

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator, slug_re
from django.db import models
from django.db.models import Q

from audit_app.kernel.ids import new_id
from audit_app.kernel.rules import TextListField
from tools_app.host_rules import check_host

_NAME = RegexValidator(
    r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,119}\Z",
    "A credential's name has 1 to 120 letters, digits, dots, dashes and underscores.",
    code="bad_name",
)


def _check_agent_id(text: str) -> str:
    if not slug_re.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is not the id of an agent.")
    return text


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
        help_text="Empty: it belongs to the installation, for model providers, channels and MCP servers.",
    )
    name = models.CharField(max_length=120, validators=[_NAME])
    value_sealed = models.TextField(editable=False)
    hosts = TextListField(
        most=200,
        longest=1000,
        rule=check_host,
        default=list,
        blank=True,
        db_default=models.Value([], models.JSONField()),
        help_text="Hosts that calls may send it to, such as api.example.com or *.example.com:8443.",
    )
    agents = TextListField(
        most=200,
        longest=120,
        rule=_check_agent_id,
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

    def clean(self) -> None:
        """Require hosts of a user's credential: without them its agents could send it to any."""
        if self.owner_id is not None and not self.hosts:
            problem = "A credential names the hosts that it may be sent to, such as api.example.com."
            raise ValidationError({"hosts": ValidationError(problem, code="hosts_required")})
