"""The proof of a mail's sender, by the verdicts of our own mail server alone."""

import pytest

from sessions_app.platforms.adapters.email.authenticity import ASSERTED, UNNAMED, UNVERIFIED, VERIFIED, proof_of

OURS = "mx.komand.example"


@pytest.mark.parametrize(
    ("results", "proof"),
    [
        ("dmarc=pass header.from=example.org", VERIFIED),
        (
            "spf=fail smtp.mailfrom=x@evil.test; dkim=none; dmarc=pass (p=REJECT sp=NONE) header.from=example.org",
            VERIFIED,
        ),
        ("dmarc=pass header.from=evil.test", UNVERIFIED),
        ("dmarc=fail (p=none) header.from=example.org; spf=pass smtp.mailfrom=x@example.org", UNVERIFIED),
        ("dmarc=fail; dmarc=pass header.from=example.org", UNVERIFIED),
        ("dmarc=none; dkim=pass header.d=example.org", VERIFIED),
        ("dmarc=bestguesspass action=none; spf=pass smtp.mailfrom=example.org", VERIFIED),
        ("dkim=pass header.i=@example.org header.s=s1", VERIFIED),
        ("dkim=pass (2048-bit key) header.d=evil.test; spf=pass smtp.mailfrom=x@evil.test", ASSERTED),
        ("dkim=pass header.d=mail.example.org", ASSERTED),
        ("dkim=pass header.d=org", ASSERTED),
        ("spf=softfail smtp.mailfrom=x@example.org", UNVERIFIED),
        ("dkim=none; spf=neutral", ASSERTED),
        ("none", UNVERIFIED),
        ('spf=fail smtp.mailfrom="x; dmarc=pass header.from=example.org"@evil.test', UNVERIFIED),
        ("spf=fail (sender said: ; dmarc=pass header.from=example.org) smtp.mailfrom=x@evil.test", UNVERIFIED),
        ("spf=fail (a (b; dmarc=pass) c) smtp.mailfrom=x@evil.test", UNVERIFIED),
    ],
)
def test_verdicts(results, proof):
    assert proof_of([f"{OURS}; {results}"], OURS, "example.org") == proof


def test_a_domain_above_the_sender_answers_for_it():
    assert proof_of([f"{OURS} 1; dkim=pass header.d=example.org"], OURS, "mail.example.org") == VERIFIED


def test_only_the_topmost_header_of_our_server_counts():
    good, bad = f"{OURS}; dmarc=pass", f"{OURS}; dmarc=fail"
    assert proof_of([bad, good], OURS, "example.org") == UNVERIFIED
    assert proof_of(["other.example; dmarc=fail", good], OURS, "example.org") == VERIFIED
    assert proof_of(["mx.evil.test; dmarc=pass"], OURS, "example.org") == ASSERTED
    assert proof_of([good], "", "example.org") == ASSERTED
    assert proof_of([], OURS, "example.org") == ASSERTED


@pytest.mark.parametrize(
    ("headers", "proof"),
    [
        (["spf=pass smtp.mailfrom=example.org; dkim=pass; dmarc=pass action=none header.from=example.org"], VERIFIED),
        (
            ["spf=fail (sender IP is 192.0.2.1) smtp.mailfrom=x@evil.test; dmarc=fail header.from=example.org"],
            UNVERIFIED,
        ),
        (["dkim=none (message not signed) header.d=none;dmarc=none action=none header.from=example.org"], ASSERTED),
        (["mx.evil.test; dmarc=fail", "spf=none; dmarc=pass header.from=example.org"], ASSERTED),
        ([], ASSERTED),
    ],
)
def test_verdicts_without_a_name_count_if_they_are_the_topmost(headers, proof):
    assert proof_of(headers, UNNAMED, "example.org") == proof
    assert proof_of(headers, OURS, "example.org") == ASSERTED
