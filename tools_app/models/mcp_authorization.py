"""Authorizations of MCP servers by OAuth 2.1, and the ones that a person has begun and not completed."""

from django.conf import settings
from django.db import models

from tools_app.models.mcp import McpServer


class McpAuthorization(models.Model):
    """The authorization of a server: the client that is registered for it, and the tokens.

    tokens_sealed: JSON of the token response; empty: none, or none that is accepted.
    client_sealed: JSON of the registered client; empty: none.
    endpoints: url (of the server that the tokens are for), resource, issuer, token_endpoint, revocation_endpoint.
    scope: what was granted, and missing_scope: what the server has demanded in vain, each separated by spaces.
    version: incremented with each change of the tokens. A refresh is stored only on the version that it began with.
    refreshing_until: end of the lease of the process that refreshes the tokens.
    """

    server = models.OneToOneField(
        McpServer, on_delete=models.CASCADE, primary_key=True, related_name="authorization", editable=False
    )
    client_sealed = models.TextField(blank=True, editable=False)
    tokens_sealed = models.TextField(blank=True, editable=False)
    endpoints = models.JSONField(default=dict, editable=False)
    scope = models.TextField(blank=True, editable=False)
    missing_scope = models.TextField(blank=True, editable=False)
    version = models.IntegerField(default=0, editable=False)
    authorized_at = models.DateTimeField(null=True, editable=False)
    refreshed_at = models.DateTimeField(null=True, editable=False)
    expires_at = models.DateTimeField(null=True, editable=False, help_text="End of the access token. Null: unknown.")
    refreshing_until = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "komand_mcp_authorization"

    def __str__(self) -> str:
        return f"authorization of {self.server_id}"


class McpAuthorizationAttempt(models.Model):
    """An authorization that a user has begun, until the authorization server sends the browser back.

    state_digest, login_digest: SHA-256 of the request's `state`, and of the browser session that began it.
    flow_sealed: JSON of what completes it, the PKCE verifier included.
    """

    state_digest = models.CharField(max_length=64, primary_key=True, editable=False)
    server = models.ForeignKey(McpServer, on_delete=models.CASCADE, related_name="+", editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", editable=False)
    login_digest = models.CharField(max_length=64, editable=False)
    flow_sealed = models.TextField(editable=False)
    expires_at = models.DateTimeField(editable=False)

    class Meta:
        db_table = "komand_mcp_authorization_attempt"

    def __str__(self) -> str:
        return f"attempt for {self.server_id}"
