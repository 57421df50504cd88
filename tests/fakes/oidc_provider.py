"""A small OpenID Connect provider whose ID tokens a test can spoil."""

import base64
import hashlib
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT_ID, CLIENT_SECRET = "komand", "the-secret-of-the-client"

_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class OidcProvider:
    """user: claims of whoever logs in; spoil: claims that replace those of the next ID token; algorithm, key: of it."""

    user: dict[str, Any] = field(default_factory=lambda: {"sub": "u-1", "preferred_username": "ada"})
    spoil: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "RS256"
    key: Any = field(default_factory=lambda: _KEY)
    requests: list[dict[str, str]] = field(default_factory=list)

    def __enter__(self) -> "OidcProvider":
        self.own_key = self.key
        self._codes: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(provider._documents().get(urlsplit(self.path).path))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._answer(provider._token({key: value[0] for key, value in parse_qs(body).items()}))

            def _answer(self, document: Any) -> None:
                data = json.dumps(document if document is not None else {"error": "invalid_grant"}).encode()
                self.send_response(200 if document is not None else 400)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def log_in(self, authorize_url: str) -> str:
        """Return the address to which the provider redirects a browser that logged in at this one."""
        asked = {key: value[0] for key, value in parse_qs(urlsplit(authorize_url).query).items()}
        self.requests.append(asked)
        code = f"code-{len(self.requests)}"
        self._codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def _documents(self) -> dict[str, Any]:
        public = json.loads(RSAAlgorithm.to_jwk(self.own_key.public_key()))
        return {
            "/.well-known/openid-configuration": {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "end_session_endpoint": f"{self.issuer}/logout",
                "id_token_signing_alg_values_supported": ["RS256"],
            },
            "/keys": {"keys": [{**public, "kid": "k1", "use": "sig", "alg": "RS256"}]},
        }

    def _token(self, sent: dict[str, str]) -> Any:
        """Return the tokens for a code, once; None for a wrong code or PKCE verifier."""
        asked = self._codes.pop(sent.get("code", ""), None)
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        if asked is None or base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            return None
        now = int(time.time())
        own = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims = {key: value for key, value in {**own, **self.user, **self.spoil}.items() if value is not None}
        key = "" if self.algorithm == "none" else self.key
        id_token = jwt.encode(claims, key, algorithm=self.algorithm, headers={"kid": "k1"})
        return {"access_token": "at", "token_type": "Bearer", "expires_in": 300, "id_token": id_token}
