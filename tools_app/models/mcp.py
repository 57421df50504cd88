"""MCP servers added by operators, and the tools that each has listed."""

import re
from typing import Any, NoReturn
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F

from audit_app.kernel import redact
from audit_app.kernel.ids import new_id
from audit_app.kernel.rules import CheckedJSONField, TextListField, check_object
from tools_app.types import Effect, Risk
from tools_app.types.credential_use import find_references

LONGEST_VALUE = 4000

SERVER_NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")
_NAME = RegexValidator(
    rf"^{SERVER_NAME.pattern}\Z",
    "Lower-case letters and digits, parts joined by a single - or _, such as github or my-files.",
)


def check_server_name(text: str) -> str:
    """Return a text that is a possible name of a server. Raises ValueError."""
    if not SERVER_NAME.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is not the name of an MCP server.")
    return text


def _check_texts(value: Any) -> dict[str, str]:
    """Return an object of texts that are single lines. Raises ValueError."""
    for name, text in check_object(value).items():
        if not name or not isinstance(text, str) or any(character in name + text for character in "\r\n\0"):
            raise ValueError("every name and value must be a single line of text.")
        if len(text) > LONGEST_VALUE:
            raise ValueError(f"{name[:40]} has more than {LONGEST_VALUE:,} characters.")
    return dict(value)


class McpServer(models.Model):
    """Connection settings of a server, defaults for its tools, and its last known state.

    settings_version: incremented by each save.
    tools_version: incremented when the tools that agents may be offered change.
    """

    TRANSPORTS = [
        ("stdio", "stdio (a command)"),
        ("streamable_http", "streamable HTTP"),
        ("sse", "SSE (older servers)"),
    ]
    RISKS = [(risk.value, risk.value) for risk in Risk]
    EFFECTS = [
        (Effect.READ.value, "read: changes nothing"),
        (Effect.ONCE.value, "once: may change something, is never repeated"),
    ]
    STATES = [
        ("unknown", "not reached yet"),
        ("ok", "works"),
        ("failing", "fails"),
        ("needs_authorization", "needs authorization"),
    ]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=24, unique=True, validators=[_NAME], help_text="Part of the names of its tools.")
    transport = models.CharField(max_length=16, choices=TRANSPORTS, default="stdio")
    command = models.CharField(max_length=500, blank=True, help_text="Program to start, for the transport stdio.")
    arguments = TextListField(
        most=100,
        longest=1000,
        default=list,
        blank=True,
        help_text='Arguments of the program, as a JSON list: ["-y", "some-server"]',
    )
    environment = CheckedJSONField(
        rule=_check_texts,
        default=dict,
        blank=True,
        help_text='Environment variables of the program, as a JSON object: {"API_KEY": "{{credential:NAME}}"}',
    )
    url = models.CharField(max_length=500, blank=True, help_text="Address of the server, for HTTP and SSE.")
    headers = CheckedJSONField(
        rule=_check_texts,
        default=dict,
        blank=True,
        help_text='Headers of each request, as a JSON object: {"Authorization": "Bearer {{credential:NAME}}"}',
    )
    oauth_client_id = models.CharField(
        "OAuth client id",
        max_length=500,
        blank=True,
        default="",
        db_default="",
        help_text="Client that you have registered for Komand yourself. Empty: Komand registers one.",
    )
    oauth_client_secret = models.CharField(
        "OAuth client secret",
        max_length=200,
        blank=True,
        default="",
        db_default="",
        help_text="Secret of that client, as a reference to a credential: {{credential:NAME}}",
    )
    is_enabled = models.BooleanField(default=True)
    default_risk = models.CharField(max_length=8, choices=RISKS, default=Risk.HIGH.value)
    default_effect = models.CharField(max_length=8, choices=EFFECTS, default=Effect.ONCE.value)
    connect_seconds = models.PositiveIntegerField(
        default=20,
        validators=[MinValueValidator(1), MaxValueValidator(300)],
        help_text="Timeout of a connection attempt.",
    )
    call_seconds = models.PositiveIntegerField(
        default=60, validators=[MinValueValidator(1), MaxValueValidator(1800)], help_text="Default timeout of a call."
    )
    settings_version = models.IntegerField(default=0, editable=False)
    tools_version = models.IntegerField(default=0, editable=False)
    state = models.CharField(max_length=24, choices=STATES, default="unknown", editable=False)
    last_error = models.TextField(blank=True, editable=False)
    greeting = models.JSONField(
        default=dict, editable=False, help_text="Name, version and protocol version reported by the server."
    )
    reached_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "komand_mcp_server"
        ordering = ["name"]
        verbose_name = "MCP server"

    def __str__(self) -> str:
        return self.name

    def save(self, *args: object, **kwargs: object) -> None:
        """Increment the version of the settings, so that open connections are renewed."""
        if not self._state.adding:
            self.settings_version = F("settings_version") + 1
        super().save(*args, **kwargs)  # type: ignore[arg-type]
        self.refresh_from_db(fields=["settings_version"])

    def clean(self) -> None:
        """Check what the transport takes, and that credentials stand where nobody else reads them."""
        if self.transport == "stdio":
            if not self.command.strip():
                _refuse("command", "required for a stdio server.")
            if any(map(find_references, (self.command, *(self.arguments or ())))):
                _refuse("arguments", "every user of the machine can read them; put credentials into the environment.")
            return
        if not _is_plain_url(self.url):
            _refuse(
                "url", "must have the form https://example.com/mcp, without a user name, its host in ASCII (xn--…)."
            )
        if find_references(self.url):
            _refuse("url", "it is logged; put credentials into the headers.")
        if self.oauth_client_secret and not redact.CREDENTIAL_REFERENCE.fullmatch(self.oauth_client_secret.strip()):
            _refuse("oauth_client_secret", "must be a reference to a credential: {{credential:NAME}}")
        if self.oauth_client_secret and not self.oauth_client_id:
            _refuse("oauth_client_id", "required with a client secret.")


def _refuse(field: str, problem: str) -> NoReturn:
    raise ValidationError({field: ValidationError(problem, code="bad_server")})


def _is_plain_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port  # raises for an invalid port
    except ValueError:
        return False
    is_host = bool(host) and str(host).isascii()  # letters of other scripts may look like those of a known host
    return parts.scheme in ("http", "https") and is_host and not (parts.username or parts.fragment)


class McpTool(models.Model):
    """A tool as its server lists it now. Agents can use it while its digest is the approved one."""

    server = models.ForeignKey(McpServer, on_delete=models.CASCADE, related_name="tools")
    name = models.CharField(max_length=128, editable=False)
    title = models.CharField(max_length=200, blank=True, editable=False)
    description = models.TextField(blank=True, editable=False)
    parameters = models.JSONField(default=dict, editable=False)
    hints = models.JSONField(default=dict, editable=False, help_text="Annotations of the server, such as readOnlyHint.")
    digest = models.CharField(max_length=64, editable=False, help_text="Digest of the tool as the server lists it now.")
    approved_digest = models.CharField(
        max_length=64, blank=True, editable=False, help_text="Digest of the tool as it was approved."
    )
    is_listed = models.BooleanField(default=True, editable=False)
    is_enabled = models.BooleanField(default=True)
    risk = models.CharField(
        max_length=8, choices=McpServer.RISKS, blank=True, help_text="Empty: default of the server."
    )
    effect = models.CharField(
        max_length=8, choices=McpServer.EFFECTS, blank=True, help_text="Empty: default of the server."
    )

    class Meta:
        db_table = "komand_mcp_tool"
        ordering = ["name"]
        verbose_name = "MCP tool"
        constraints = [models.UniqueConstraint(fields=["server", "name"], name="mcp_tool_once_per_server")]

    def __str__(self) -> str:
        return self.name

    @property
    def is_approved(self) -> bool:
        return bool(self.approved_digest) and self.approved_digest == self.digest

    @property
    def status(self) -> str:
        """Return offered | off | gone | new | changed. Agents can use tools in the state `offered` only."""
        if not self.is_listed:
            return "gone"
        if not self.approved_digest:
            return "new"
        if not self.is_approved:
            return "changed"
        return "offered" if self.is_enabled else "off"
