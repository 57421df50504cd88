"""API keys of programs and refresh tokens of logins."""

from django.conf import settings
from django.db import models

from audit_app.kernel.ids import new_id


class ApiKey(models.Model):
    """An API key, `sk-user-<prefix><secret>`. Only a digest is stored; the key is shown once."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=120)
    prefix = models.CharField(
        max_length=16, unique=True, help_text="First characters after sk-user-, by which the key is found."
    )
    digest = models.CharField(max_length=64, editable=False)
    suffix = models.CharField(
        max_length=4, blank=True, help_text="Last characters of the key, by which users recognise it."
    )
    scopes = models.JSONField(default=list, blank=True, help_text="Surfaces, agents and rights. Empty: none.")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "komand_api_key"
        ordering = ["-id"]
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"{self.name} (sk-user-{self.prefix}…)"


class RefreshToken(models.Model):
    """A refresh token of a login family. Using one twice revokes the whole family."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    family = models.UUIDField()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "komand_refresh_token"
        indexes = [
            models.Index(fields=["family"], name="refresh_family"),  # revocation of a login
            models.Index(fields=["expires_at"], name="refresh_expired"),  # retention: expired tokens
        ]

    def __str__(self) -> str:
        return f"refresh token of {self.user_id}"
