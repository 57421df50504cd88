"""API keys of programs, logins and their refresh tokens."""

from django.conf import settings
from django.db import models

from audit_app.kernel.ids import new_id


class ApiKey(models.Model):
    """An API key, `sk-user-<prefix><secret>`. Only a digest is stored; the key is shown once."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=120)
    prefix = models.CharField(
        max_length=16, unique=True, help_text="First characters after sk-user-, used to find the key."
    )
    digest = models.CharField(max_length=64, editable=False)
    suffix = models.CharField(max_length=4, blank=True, help_text="Last characters of the key, shown to users.")
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


class Login(models.Model):
    """A login of a browser, with its session, or of a program, whose id is the family of its refresh tokens."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    session_key = models.CharField(max_length=40, null=True, unique=True, editable=False)  # noqa: DJ001 - null is unique
    user_agent = models.CharField(max_length=200, blank=True)
    address = models.GenericIPAddressField()
    created_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField()

    class Meta:
        db_table = "komand_login"
        indexes = [models.Index(fields=["last_seen_at"], name="login_last_seen")]  # retention: unused logins

    def __str__(self) -> str:
        return f"login of {self.user_id}"


class RefreshToken(models.Model):
    """A refresh token of a login family. Using one twice revokes the whole family."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    family = models.UUIDField()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    authenticated_at = models.DateTimeField(null=True, help_text="Time of the last authentication by the user.")
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


class SecondFactor(models.Model):
    """The authenticator app of a user (TOTP). The secret is encrypted by the vault.

    last_step: time step of the last code that was used, because a code is good for one login.
    failures, failed_at: wrong codes since the last right one.
    """

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    secret_sealed = models.TextField(editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    confirmed_at = models.DateTimeField(
        null=True, help_text="Time at which the first code was entered. Empty: not confirmed."
    )
    last_step = models.BigIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    failed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "komand_second_factor"

    def __str__(self) -> str:
        return f"second factor of {self.user_id}"


class RecoveryCode(models.Model):
    """A code that replaces the authenticator app once. Only a digest is stored; a used code is deleted."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64, unique=True, editable=False)

    class Meta:
        db_table = "komand_recovery_code"

    def __str__(self) -> str:
        return f"recovery code of {self.user_id}"


class ExternalIdentity(models.Model):
    """A user's account at an OpenID Connect provider. The subject is the provider's id of it, which never changes."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    issuer = models.CharField(max_length=300)
    subject = models.CharField(max_length=255)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "komand_external_identity"
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="external_identity")]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"
