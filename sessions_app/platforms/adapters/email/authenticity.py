"""The proof of a mail's sender: the verdicts of our own mail server in `Authentication-Results` (RFC 8601). Pure.

The From header is free text. Only the topmost header of the server that we are configured to trust counts: a sender can
write such headers, too, but below it.
"""

from collections.abc import Sequence

from sessions_app.platforms.adapters.email.authentication_results import NotParsable, Result, read_results, server_of

# From the strongest to the weakest.
DMARC, VERIFIED, ASSERTED, UNVERIFIED = "dmarc", "verified", "asserted", "unverified"
LADDER = (DMARC, VERIFIED, ASSERTED, UNVERIFIED)
# The server of verdicts without a name, as Microsoft 365 writes them above all others.
UNNAMED = "unnamed"


def suffices(proof: str, least: str) -> bool:
    """Return whether a proof is at least as strong as another one."""
    return LADDER.index(proof) <= LADDER.index(least)


def is_forgeable(server: str, least: str) -> bool:
    """Return whether a mail in the name of somebody else suffices. server: whose verdicts count, if any."""
    return suffices(UNVERIFIED if server else ASSERTED, least)


def proof_of(headers: Sequence[str], server: str, domain: str) -> str:
    """Return the proof of a sender, one of LADDER: asserted if there is no verdict.

    headers: the values of Authentication-Results as they were sent, topmost first.
    server: the name in those of ours, empty if none is trusted; UNNAMED: the topmost header is of ours, without a name.
    """
    ours = _find(headers, server.lower())
    if ours is None:
        return ASSERTED
    try:
        return _judge(read_results(ours), domain.lower())
    except NotParsable:
        return UNVERIFIED


def _find(headers: Sequence[str], server: str) -> str | None:
    if server == UNNAMED:
        return next((header for header in headers[:1] if not server_of(header)), None)
    return next((header for header in headers if server and server_of(header) == server), None)


def _judge(results: Sequence[Result], domain: str) -> str:
    dmarc = [result for result in results if result.method == "dmarc"]
    if [result.verdict for result in dmarc] == ["pass"]:
        seen = dmarc[0].properties.get("header.from")
        return VERIFIED if seen is None else DMARC if seen == domain else UNVERIFIED
    if {result.verdict for result in dmarc} - {"none", "bestguesspass"}:
        return UNVERIFIED
    others = [result for result in results if result.method in ("dkim", "spf")]
    if any(result.verdict == "pass" and _is_aligned(_domain_of(result), domain) for result in others):
        return VERIFIED
    has_failed = any(result.verdict in ("fail", "softfail") for result in others)
    return UNVERIFIED if has_failed or not (dmarc or others) else ASSERTED


def _domain_of(result: Result) -> str:
    """Return the domain that a result of DKIM or SPF is about."""
    names = ("smtp.mailfrom",) if result.method == "spf" else ("header.d", "header.i")
    return next((result.properties[name] for name in names if name in result.properties), "").rpartition("@")[2]


def _is_aligned(name: str, domain: str) -> bool:
    """Return whether a domain answers for another: the same one, or one above it. A subdomain may be a stranger's."""
    return "." in name and (name == domain or domain.endswith(f".{name}"))
