"""An authorization server of OAuth 2.1, and an MCP server that takes its tokens alone, over real HTTP.

`python -m tests.fakes.mcp.authorized PORT` serves both, the authorization server on the next port; it approves all.
"""

import base64
import hashlib
import json
import re
import sys
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer

_Answer = tuple[int, dict[str, str], bytes]
NAMES = ("authorization", "token", "registration", "revocation")
PATHS = {"authorization": "authorize", "token": "token", "registration": "register", "revocation": "revoke"}


@dataclass
class Grant:
    """An authorization that was given. is_revoked: its tokens are void, those of refreshes included."""

    client_id: str
    scope: str
    resource: str
    is_revoked: bool = False


@dataclass
class Issued:
    """A token. ends_at: on the clock of `time.time`."""

    grant: Grant
    ends_at: float


def as_json(status: int, content: Any, **headers: str) -> _Answer:
    return status, {"content-type": "application/json", **headers}, json.dumps(content).encode()


class FakeAuthorizationServer(FakeServer):
    """The authorization server. Tokens are `access-…` and `refresh-…`; each refresh rotates, a reuse voids the grant.

    metadata: replaces members of its metadata, None removes one.
    seconds: lifetime of access tokens.
    iss: of its responses; None: absent.
    forms: what was posted, by path, oldest first. seen: the path of each request.
    """

    def __init__(self, *, port: int = 0) -> None:
        super().__init__(port=port)
        self.metadata: dict[str, Any] = {}
        self.seconds: int | None = 3600
        self.iss: str | None = "own"
        self.forms: dict[str, list[dict[str, str]]] = {}
        self.seen: list[str] = []
        self.clients: dict[str, dict[str, Any]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.access: dict[str, Issued] = {}
        self.refresh: dict[str, Grant] = {}
        self.used: dict[str, Grant] = {}

    def document(self) -> dict[str, Any]:
        """Return the metadata (RFC 8414)."""
        given: dict[str, Any] = {
            "issuer": self.url,
            **{f"{name}_endpoint": f"{self.url}/{PATHS[name]}" for name in NAMES},
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
            "authorization_response_iss_parameter_supported": self.iss is not None,
            **self.metadata,
        }
        return {name: value for name, value in given.items() if value is not None}

    def approve(self, url: str, **changed: str | None) -> str:
        """Return the address to which the browser is sent back. changed: replaces parameters, None removes one."""
        asked = dict(parse_qsl(urlsplit(url).query))
        code = f"code-{len(self.codes) + 1}"
        self.codes[code] = asked
        given = {"code": code, "state": asked["state"], "iss": self.url if self.iss == "own" else self.iss, **changed}
        return f"{asked['redirect_uri']}?{urlencode({name: text for name, text in given.items() if text is not None})}"

    def accepts(self, token: str, resource: str) -> Grant | None:
        """Return the grant of an access token that is valid for this resource."""
        issued = self.access.get(token)
        if issued is None or issued.grant.is_revoked or issued.ends_at < time.time():
            return None
        return issued.grant if issued.grant.resource == resource else None

    def take(self, request: HttpRequest) -> _Answer:
        path = urlsplit(request.path).path
        self.seen.append(path)
        if path == "/.well-known/oauth-authorization-server":
            return as_json(200, self.document())
        if path == "/authorize":
            return 302, {"location": self.approve(request.path)}, b""
        if request.method != "POST":
            return as_json(404, {})
        if path == "/register":
            return self._register(json.loads(request.body))
        form = dict(parse_qsl(request.body.decode()))
        self.forms.setdefault(path, []).append(form)
        if not self._is_client(request, form):
            return as_json(401, {"error": "invalid_client"})
        if path == "/revoke":
            grant = self.refresh.get(form["token"]) or getattr(self.access.get(form["token"]), "grant", None)
            if grant:
                grant.is_revoked = True
            return 200, {}, b""
        return self._token(form)

    def _register(self, wanted: dict[str, Any]) -> _Answer:
        client_id = f"client-{len(self.clients) + 1}"
        client = {**wanted, "client_id": client_id, "client_secret": f"secret-of-{client_id}"}
        self.clients[client_id] = client
        return as_json(201, client)

    def _is_client(self, request: HttpRequest, form: dict[str, str]) -> bool:
        basic = re.fullmatch(r"Basic (.+)", request.headers.get("authorization", ""))
        name, _, secret = base64.b64decode(basic[1]).decode().partition(":") if basic else ("", "", "")
        if self.metadata.get("client_id_metadata_document_supported") and form.get("client_id", "").startswith(
            "https:"
        ):
            return True
        known = self.clients.get(unquote(name) or form.get("client_id", ""))
        return known is not None and unquote(secret) == known.get("client_secret", "")

    def _token(self, form: dict[str, str]) -> _Answer:
        if form.get("grant_type") == "refresh_token":
            grant = self.refresh.pop(form["refresh_token"], None)
            if reused := self.used.get(form["refresh_token"]):
                reused.is_revoked = True
            if grant is None or grant.is_revoked or grant.resource != form.get("resource"):
                return as_json(400, {"error": "invalid_grant", "error_description": f"bad {form['refresh_token']}"})
            self.used[form["refresh_token"]] = grant
            return self._issue(grant)
        asked = self.codes.pop(form.get("code", ""), {})
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        same = ("client_id", "redirect_uri", "resource")
        if challenge != asked.get("code_challenge") or any(asked.get(name) != form.get(name) for name in same):
            return as_json(400, {"error": "invalid_grant"})
        return self._issue(Grant(form["client_id"], asked.get("scope", ""), form["resource"]))

    def _issue(self, grant: Grant) -> _Answer:
        number = len(self.access) + 1
        access, refresh = f"access-{number}-0123456789", f"refresh-{number}-0123456789"
        self.access[access] = Issued(grant, time.time() + (self.seconds or 3600))
        self.refresh[refresh] = grant
        lifetime = {} if self.seconds is None else {"expires_in": self.seconds}
        tokens = {"access_token": access, "token_type": "bearer", "refresh_token": refresh, "scope": grant.scope}
        return as_json(200, {**tokens, **lifetime})


@dataclass
class Called:
    """A call that the server carried out. token: the one that it came with."""

    tool: str
    token: str


class FakeProtectedServer(FakeServer):
    """An MCP server (2025-06-18) with the tools `read` and `write`; `write` takes the scope `files:write`.

    metadata: replaces members of its metadata, None removes one.
    challenge: of its 401, after `Bearer `; None: as usual.
    greets_strangers: whether it initializes without a token.
    """

    def __init__(self, authorization: FakeAuthorizationServer, *, port: int = 0) -> None:
        super().__init__(port=port)
        self.authorization = authorization
        self.metadata: dict[str, Any] = {}
        self.challenge: str | None = None
        self.greets_strangers = False
        self.calls: list[Called] = []
        self.tokens: list[str] = []

    @property
    def resource(self) -> str:
        return f"{self.url}/mcp"

    def take(self, request: HttpRequest) -> _Answer:
        path = urlsplit(request.path).path
        if path == "/.well-known/oauth-protected-resource/mcp":
            given = {"resource": self.resource, "authorization_servers": [self.authorization.url]}
            return as_json(200, {name: value for name, value in (given | self.metadata).items() if value is not None})
        if path != "/mcp":
            return as_json(404, {})
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.tokens.append(token)
        grant = self.authorization.accepts(token, self.resource)
        if grant is None and self.greets_strangers and b"initialize" in request.body:
            grant = Grant("", "", "")
        if grant is None:
            return as_json(401, {"error": "invalid_token"}, **{"www-authenticate": f"Bearer {self._challenge()}"})
        if request.method != "POST":
            return as_json(405, {})
        return self._answer(json.loads(request.body), token, grant)

    def _challenge(self) -> str:
        usual = f'resource_metadata="{self.url}/.well-known/oauth-protected-resource/mcp", scope="files:read"'
        return usual if self.challenge is None else self.challenge

    def _answer(self, message: dict[str, Any], token: str, grant: Grant) -> _Answer:
        if "id" not in message:
            return 202, {}, b""
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        match message["method"]:
            case "initialize":
                info = {"name": "protected", "version": "1"}
                result: Any = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("read", "write")]}
            case "tools/call":
                tool = message["params"]["name"]
                if tool == "write" and "files:write" not in grant.scope.split():
                    wanted = 'Bearer error="insufficient_scope", scope="files:write"'
                    return as_json(403, {"error": "insufficient_scope"}, **{"www-authenticate": wanted})
                self.calls.append(Called(tool, token))
                result = {"content": [{"type": "text", "text": f"{tool} done"}]}
            case "ping":
                result = {}
            case _:
                return as_json(200, {**reply, "error": {"code": -32601, "message": "Method not found"}})
        return as_json(200, {**reply, "result": result})


@dataclass
class Pair:
    """Both servers, as a context."""

    port: int = 0
    authorization: FakeAuthorizationServer = field(init=False)
    protected: FakeProtectedServer = field(init=False)

    def __enter__(self) -> "Pair":
        self.authorization = FakeAuthorizationServer(port=self.port + 1 if self.port else 0)
        self.protected = FakeProtectedServer(self.authorization, port=self.port)
        self.authorization.__enter__()
        self.protected.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.protected.__exit__(None, None, None)
        self.authorization.__exit__(None, None, None)


if __name__ == "__main__":
    with Pair(int(sys.argv[1])) as pair:
        sys.stdout.write(f"{pair.protected.resource} {pair.authorization.address}\n")
        sys.stdout.flush()
        while True:
            time.sleep(1)
