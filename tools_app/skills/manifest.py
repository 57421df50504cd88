"""The manifest of a skill: parsed, validated and digested.

The digest covers everything but the signature itself. A version is signed if its `signatureHash` equals the digest.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from typing import Any

from audit_app.kernel.canonical_json import canonical_json
from audit_app.kernel.errors import InvalidInput
from tools_app import schema
from tools_app.skills.manifest_schema import MANIFEST
from tools_app.skills.permissions import BadPermission, Permission, read_permission
from tools_app.skills.templates import BadTemplate, HttpTemplate, check_template
from tools_app.skills.versions import is_version
from tools_app.types import Effect, Risk

MAX_CHARACTERS = 512 * 1024
_UNSIGNED = ("signatureHash", "isVerified")


class Kind(StrEnum):
    """Kind of a skill. DECLARED: described only, cannot be called."""

    HTTP = "http"
    MCP = "mcp"
    INSTRUCTION = "instruction"
    DECLARED = "declared"


@dataclass(frozen=True)
class Manifest:
    """A parsed manifest.

    required: permissions it needs, including those that its kind implies.
    files: files of an instruction skill, by path.
    mcp: (server, tool).
    """

    skill_id: str
    name: str
    version: str
    publisher_id: str
    description: str
    category: str
    kind: Kind
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    required: tuple[Permission, ...]
    declared_tool_access: tuple[str, ...]
    signature_hash: str
    effect: Effect
    risk: Risk
    timeout_seconds: int
    http: HttpTemplate | None = None
    mcp: tuple[str, str] | None = None
    instructions: str = ""
    files: Mapping[str, str] | None = None


def read_manifest(data: Mapping[str, Any]) -> Manifest:
    """Return the manifest in a JSON object. Raises InvalidInput (bad_manifest), naming what to correct."""
    try:
        return _read(data)
    except (BadTemplate, BadPermission, ValueError, RecursionError) as error:
        reason = str(error) or "it is nested too deeply"
        raise InvalidInput(f"The manifest cannot be used: {reason[:500]}.", code="bad_manifest") from None


def digest_of(data: Mapping[str, Any]) -> str:
    """Return `sha256:` and the hex digest of the manifest without its signature, as canonical JSON."""
    signed = {name: value for name, value in data.items() if name not in _UNSIGNED}
    return f"sha256:{sha256(canonical_json(signed).encode()).hexdigest()}"


def is_signed(manifest: Manifest, digest: str) -> bool:
    """Return whether the signature hash equals the digest."""
    return compare_digest(manifest.signature_hash.encode(), digest.encode())


def _read(data: Mapping[str, Any]) -> Manifest:
    schema.read_arguments(json.dumps(data), max_characters=MAX_CHARACTERS)  # refuses what cannot be stored
    problems = schema.find_problems(dict(data), MANIFEST)
    if problems:
        raise ValueError(problems)
    if not is_version(data["version"]):
        raise ValueError("version: must be a semantic version such as 1.0.0")
    kind = _kind_of(data)
    http = _http_of(data)
    effect = Effect(data.get("effect") or _effect_of(kind, http))
    return Manifest(
        skill_id=data["skillId"],
        name=data["name"],
        version=data["version"],
        publisher_id=data["publisherId"],
        description=data.get("description") or "",
        category=data.get("category") or "",
        kind=kind,
        input_schema=_input_schema(data, kind),
        output_schema=schema.fit_foreign(data["outputSchema"]) if data.get("outputSchema") else None,
        required=_required(data, http),
        declared_tool_access=tuple(data.get("declaredToolAccess") or ()),
        signature_hash=data.get("signatureHash") or "",
        effect=effect,
        risk=Risk(data.get("risk") or _risk_of(kind, effect)),
        timeout_seconds=data.get("timeoutSeconds") or 30,
        http=http,
        mcp=(data["mcp"]["server"], data["mcp"]["tool"]) if data.get("mcp") else None,
        instructions=(data.get("instruction") or {}).get("body", ""),
        files=(data.get("instruction") or {}).get("files") or {},
    )


def _kind_of(data: Mapping[str, Any]) -> Kind:
    kinds = [kind for kind in (Kind.HTTP, Kind.MCP, Kind.INSTRUCTION) if data.get(kind.value)]
    if len(kinds) > 1:
        raise ValueError("a skill must have exactly one of http, mcp and instruction")
    return kinds[0] if kinds else Kind.DECLARED


def _http_of(data: Mapping[str, Any]) -> HttpTemplate | None:
    if not (given := data.get("http")):
        return None
    template = HttpTemplate(
        method=given["method"],
        url=given["url"],
        query=given.get("query") or {},
        headers=given.get("headers") or {},
        json_body=given.get("json"),
        form=given.get("form"),
    )
    check_template(template)
    return template


def _input_schema(data: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    given = data.get("inputSchema") or {"type": "object", "properties": {}}
    fit = schema.fit_foreign(given)
    if fit.get("type") != "object":
        raise ValueError("inputSchema: must be the schema of an object")
    if schema.TIMEOUT in (fit.get("properties") or {}):
        raise ValueError(f"inputSchema: {schema.TIMEOUT} is reserved, every call has this argument")
    if kind is Kind.INSTRUCTION and fit.get("properties"):
        raise ValueError("inputSchema: instructions take no input")
    return fit


def _required(data: Mapping[str, Any], http: HttpTemplate | None) -> tuple[Permission, ...]:
    """Return the declared permissions, and those that its request or tool implies."""
    required = {read_permission(value): None for value in data.get("requiredPermissions") or ()}
    if http:
        required[Permission("network", "outbound", http.origin.partition("://")[2])] = None
        required |= {Permission("credential", "use", name): None for name in http.credentials}
    if data.get("mcp"):
        required[Permission("mcp", "call", f"{data['mcp']['server']}/{data['mcp']['tool']}")] = None
    return tuple(required)


def _effect_of(kind: Kind, http: HttpTemplate | None) -> Effect:
    reads = kind is Kind.INSTRUCTION or (http is not None and http.method in ("GET", "HEAD"))
    return Effect.READ if reads else Effect.ONCE


def _risk_of(kind: Kind, effect: Effect) -> Risk:
    if kind is Kind.INSTRUCTION:
        return Risk.LOW
    return Risk.MEDIUM if effect is Effect.READ else Risk.HIGH
