"""OAuth 2.1 as a client of MCP servers: discovery, registration of a client, and requests for tokens.

Loads the SDK; uses no rows. Rules: MCP authorization (2025-11-25), RFC 6749, 7009, 7591, 7636, 8414, 8707, 9207, 9728.
"""

import base64
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, PKCEParameters, utils
from mcp.client.auth.oauth2 import check_registration_usable
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    TokenEndpointAuthMethod,
)
from mcp.shared.auth import ProtectedResourceMetadata as ResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl, ValidationError

from audit_app.kernel import redact
from tools_app.mcp_client.oauth_http import FlowClient, FlowError, Unreachable, error_of

_AUTH_METHODS: tuple[TokenEndpointAuthMethod, ...] = ("client_secret_basic", "client_secret_post", "none")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Errors of a token endpoint that say nothing about the token.
_PASSING = ("temporarily_unavailable", "server_error", "slow_down")


class TokenRefused(FlowError):
    """The authorization server refuses tokens. code: its OAuth error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Target:
    """A server to be authorized for.

    headers: of requests to the server.
    reachable: `host:port` pairs that the flow may reach although they are not public.
    client: JSON of the client that is registered already; empty: none.
    client_id, client_secret: of a client that an operator has registered.
    document_url: of our client metadata document; empty: none can be read.
    scope: what has to be asked for in addition, separated by spaces.
    """

    url: str
    redirect_uri: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    reachable: Collection[str] = ()
    client: str = field(default="", repr=False)
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    document_url: str = ""
    scope: str = ""


@dataclass(frozen=True)
class Begun:
    """An authorization that a user continues at `url`. flow: JSON values that `complete` needs, a secret."""

    url: str
    state: str = field(repr=False)
    flow: dict[str, Any] = field(repr=False)


async def begin(target: Target) -> Begun:
    """Find the authorization server, register there if necessary, and prepare the request. Raises FlowError."""
    async with FlowClient(target.url, target.reachable) as http:
        challenge = await _challenge(http, target)
        resource = await _resource_metadata(http, target.url, challenge)
        found = await _server_metadata(http, target.url, resource)
        offered = utils.get_client_metadata_scopes(
            utils.extract_scope_from_www_auth(challenge), resource, found, ["authorization_code", "refresh_token"]
        )
        scope = utils.union_scopes(target.scope, offered)
        client = await _client(http, target, found, scope)
    pkce, state = PKCEParameters.generate(), secrets.token_urlsafe(32)
    resource_url = str(resource.resource) if resource else resource_url_from_server_url(target.url)
    asked = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": target.redirect_uri,
        "state": state,
        "code_challenge": pkce.code_challenge,
        "code_challenge_method": "S256",
        "resource": resource_url,
        **({"scope": scope} if scope else {}),
        **({"prompt": "consent"} if "offline_access" in (scope or "").split() else {}),
    }
    endpoint = str(found.authorization_endpoint)
    flow = {
        "verifier": pkce.code_verifier,
        "redirect_uri": target.redirect_uri,
        "scope": scope or "",
        "announces_iss": bool(found.authorization_response_iss_parameter_supported),
        "client": client.model_dump_json(exclude_none=True),
        "endpoints": {
            "url": target.url,
            "resource": resource_url,
            "issuer": str(found.issuer),
            "token_endpoint": str(found.token_endpoint),
            "revocation_endpoint": str(found.revocation_endpoint or ""),
        },
    }
    return Begun(f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(asked)}", state, flow)


def check_issuer(flow: Mapping[str, Any], issuer: str | None) -> None:
    """Check the `iss` of the response (RFC 9207). Raises FlowError if it is another's, or absent though announced."""
    if issuer is None and not flow["announces_iss"]:
        return
    if issuer != flow["endpoints"]["issuer"]:
        raise FlowError("The response came from another authorization server than the one that was asked.")


async def complete(flow: Mapping[str, Any], code: str, reachable: Collection[str]) -> dict[str, Any]:
    """Exchange the code; return the tokens, as `refresh` does. Raises FlowError."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": flow["redirect_uri"],
        "code_verifier": flow["verifier"],
    }
    tokens = await _tokens(flow["endpoints"], flow["client"], form, reachable)
    return {**tokens, "scope": tokens["scope"] or flow["scope"]}


async def refresh(
    endpoints: Mapping[str, str], client: str, refresh_token: str, reachable: Collection[str]
) -> dict[str, Any]:
    """Return new tokens: access_token, refresh_token, scope and seconds (None: unknown); absent ones are empty.

    Raises TokenRefused, Unreachable.
    """
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    tokens = await _tokens(endpoints, client, form, reachable)
    return {**tokens, "refresh_token": tokens["refresh_token"] or refresh_token}


async def revoke(
    endpoints: Mapping[str, str], client: str, tokens: Mapping[str, str], reachable: Collection[str]
) -> None:
    """Revoke the tokens (RFC 7009). Raises FlowError."""
    url = endpoints["revocation_endpoint"]
    if not url:
        raise FlowError("The authorization server has no revocation endpoint.")
    async with FlowClient(endpoints["url"], reachable) as http:
        for hint in ("refresh_token", "access_token"):
            if token := tokens.get(hint):
                response = await http.send(_form(url, client, {"token": token, "token_type_hint": hint}))
                if not response.is_success:
                    raise FlowError(f"The authorization server answered: {error_of(response)[1]}.")


async def _tokens(
    endpoints: Mapping[str, str], client: str, form: dict[str, str], reachable: Collection[str]
) -> dict[str, Any]:
    sent = {**form, "resource": endpoints["resource"]}
    async with FlowClient(endpoints["url"], reachable) as http:
        response = await http.send(_form(endpoints["token_endpoint"], client, sent))
    if response.status_code not in (200, 201):
        code, about = error_of(response)
        if response.status_code not in (400, 401, 403) or code in _PASSING:
            raise Unreachable(f"The authorization server gave no token ({about}).")
        raise TokenRefused(code, f"The authorization server refused a token ({about}).")
    try:
        token = OAuthToken.model_validate_json(response.content)
    except ValidationError:
        raise FlowError("The authorization server's response has no usable token.") from None
    for secret in filter(None, (token.access_token, token.refresh_token)):
        redact.remember(secret)
    return {
        "access_token": token.access_token,
        "refresh_token": token.refresh_token or "",
        "scope": token.scope or "",
        "seconds": token.expires_in,
    }


def _form(url: str, client_json: str, fields: Mapping[str, str]) -> httpx2.Request:
    """Return a request of the client, authenticated as it is registered."""
    client = OAuthClientInformationFull.model_validate_json(client_json)
    form, headers, secret = (
        {**fields, "client_id": client.client_id},
        {"Accept": "application/json"},
        client.client_secret,
    )
    match client.token_endpoint_auth_method or ("client_secret_basic" if secret else "none"):  # RFC 7591, section 2
        case "client_secret_basic" if secret:
            pair = f"{quote(client.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        case "client_secret_post" if secret:
            form["client_secret"] = secret
    return httpx2.Request("POST", url, data=form, headers=headers)


async def _challenge(http: FlowClient, target: Target) -> httpx2.Response:
    """Return the server's answer to a request without a token, which names its metadata and scopes.

    Some servers let strangers initialize a session, and only refuse to list their tools.
    """
    client = {"clientInfo": {"name": "komand", "version": "1"}, "capabilities": {}}
    hello = {"method": "initialize", "params": {"protocolVersion": LATEST_PROTOCOL_VERSION, **client}}
    headers = {**target.headers, "Accept": "application/json, text/event-stream"}
    for message in (hello, {"method": "tools/list"}):
        body = {"jsonrpc": "2.0", "id": 1, **message}
        response = await http.send(httpx2.Request("POST", target.url, json=body, headers=headers))
        if response.status_code == 401:
            break
    return response


async def _resource_metadata(http: FlowClient, url: str, challenge: httpx2.Response) -> ResourceMetadata | None:
    """Return the metadata of the server (RFC 9728), None if it has none. Raises FlowError."""
    named = utils.extract_field_from_www_auth(challenge, "resource_metadata")
    for place in utils.build_protected_resource_metadata_discovery_urls(named, url):
        response = await http.send(utils.create_oauth_metadata_request(place))
        if response.status_code >= 500 or response.status_code == 429:
            raise Unreachable(f"The metadata of the server cannot be read: status {response.status_code}.")
        found = await utils.handle_protected_resource_response(response)
        if found is not None:
            own = resource_url_from_server_url(url)
            if not check_resource_allowed(requested_resource=own, configured_resource=str(found.resource)):
                raise FlowError(f"The metadata of the server is about another one, {str(found.resource)[:200]}.")
            return found
    if challenge.status_code != 401:
        raise FlowError("The server does not ask for authorization.")
    return None


async def _server_metadata(http: FlowClient, url: str, resource: ResourceMetadata | None) -> OAuthMetadata:
    """Return the metadata of the authorization server (RFC 8414, OpenID Connect), checked. Raises FlowError.

    A server without metadata of its own is its authorization server, at fixed paths if need be (MCP 2025-03-26).
    """
    advertised = str(resource.authorization_servers[0]) if resource else None
    origin = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
    expected = advertised or origin
    for place in utils.build_oauth_authorization_server_metadata_discovery_urls(advertised, url):
        response = await http.send(utils.create_oauth_metadata_request(place))
        goes_on, found = await utils.handle_auth_metadata_response(response)
        if found is not None:
            if not utils.issuers_match(str(found.issuer), expected):
                raise FlowError(f"The authorization server calls itself {str(found.issuer)[:200]}, not {expected}.")
            if "S256" not in (found.code_challenge_methods_supported or ()):
                raise FlowError("The authorization server does not support PKCE with S256.")
            _check_endpoints(http, found)
            return found
        if not goes_on:
            raise Unreachable(
                f"The metadata of the authorization server cannot be read: status {response.status_code}."
            )
    if advertised:
        raise FlowError(f"The authorization server {advertised[:200]} has no metadata.")
    fixed = {f"{name}_endpoint": f"{origin}/{path}" for name, path in _FIXED_PATHS.items()}
    return OAuthMetadata.model_validate({"issuer": origin, **fixed})


_FIXED_PATHS = {"authorization": "authorize", "token": "token", "registration": "register"}


def _check_endpoints(http: FlowClient, found: OAuthMetadata) -> None:
    for name in ("authorization", "token", "registration", "revocation"):
        if endpoint := getattr(found, f"{name}_endpoint"):
            http.check(str(endpoint), f"{name} endpoint")


async def _client(
    http: FlowClient, target: Target, found: OAuthMetadata, scope: str | None
) -> OAuthClientInformationFull:
    """Return the client: an operator's, the one registered before, our metadata document's, or a new one."""
    supported = found.token_endpoint_auth_methods_supported or ["client_secret_basic"]  # RFC 8414, section 2
    if target.client_id:
        ways = [way for way in _AUTH_METHODS[:2] if way in supported] if target.client_secret else ["none"]
        return OAuthClientInformationFull(
            client_id=target.client_id,
            client_secret=target.client_secret or None,
            token_endpoint_auth_method=ways[0] if ways else _AUTH_METHODS[0],
        )
    redirect_uri, issuer = AnyUrl(target.redirect_uri), str(found.issuer)
    if target.client:
        known = OAuthClientInformationFull.model_validate_json(target.client)
        ends = known.client_secret_expires_at or 0
        if known.issuer == issuer and redirect_uri in (known.redirect_uris or ()) and (not ends or ends > time.time()):
            return known
    if utils.should_use_client_metadata_url(found, target.document_url or None):
        return utils.create_client_info_from_metadata_url(target.document_url, redirect_uris=[redirect_uri])
    if found.registration_endpoint is None:
        raise FlowError(
            "The authorization server registers no clients by itself. Register one there, with the redirect address "
            f"{target.redirect_uri}, and enter its client id here."
        )
    wanted = OAuthClientMetadata(
        redirect_uris=[redirect_uri],
        client_name="Komand",
        scope=scope,
        application_type="native" if urlsplit(target.redirect_uri).hostname in _LOOPBACK else "web",
        token_endpoint_auth_method=next((way for way in _AUTH_METHODS if way in supported), None),
    )
    return await _registered(http, found, wanted, issuer)


async def _registered(
    http: FlowClient, found: OAuthMetadata, wanted: OAuthClientMetadata, issuer: str
) -> OAuthClientInformationFull:
    response = await http.send(utils.create_client_registration_request(found, wanted, issuer))
    if response.status_code not in (200, 201):
        raise FlowError(f"The authorization server refused to register a client ({error_of(response)[1]}).")
    try:
        client = await utils.handle_registration_response(response)
        check_registration_usable(client)
    except (OAuthRegistrationError, OAuthFlowError):
        raise FlowError("The authorization server registered a client that cannot be used.") from None
    client.issuer, client.redirect_uris = issuer, client.redirect_uris or wanted.redirect_uris
    if client.client_secret:
        redact.remember(client.client_secret)
    return client
