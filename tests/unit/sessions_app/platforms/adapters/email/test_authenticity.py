"""The proof of a mail's sender, by the verdicts of our own mail server alone."""

import pytest

from sessions_app.platforms.adapters.email.authenticity import (
    ASSERTED,
    DMARC,
    UNNAMED,
    UNVERIFIED,
    VERIFIED,
    proof_of,
    suffices,
)

OURS = "mx.komand.example"


@pytest.mark.parametrize(
    ("results", "proof"),
    [
        ("dmarc=pass header.from=example.org", DMARC),
        ('DMARC = pass reason = "a; \\" b" header.from = "example.org";', DMARC),
        ("dmarc/1=pass (p=none (and) \\) more) header.from=EXAMPLE.org (dis=none)", DMARC),
        ("dmarc=pass", VERIFIED),
        ("spf=fail smtp.mailfrom=x@evil.test; dkim=none; dmarc=pass (p=REJECT sp=NONE) header.from=example.org", DMARC),
        ("dmarc=pass header.from=evil.test", UNVERIFIED),
        ("dmarc=fail (p=none) header.from=example.org; spf=pass smtp.mailfrom=x@example.org", UNVERIFIED),
        ("dmarc=fail; dmarc=pass header.from=example.org", UNVERIFIED),
        ("dmarc=pass header.from=example.org; dmarc=pass header.from=example.org", UNVERIFIED),
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
        ("spf=pass smtp.mailfrom==?utf-8?q?=3Bdkim=3Dpass_header.d=example.org=3Bx=3D=22?=@evil.test", ASSERTED),
        ("dkim=pass header.i==?utf-8?q?=3Bdmarc=3Dpass_header.from=3Dexample.org?=@evil.test", ASSERTED),
        ("dkim=pass header.i=x;dkim=pass@example.org", UNVERIFIED),
        ('spf=pass smtp.mailfrom="a@example.org\\""@evil.test', ASSERTED),
        ('spf=pass smtp.mailfrom="x;dkim=pass header.d=example.org;y="@evil.test', ASSERTED),
    ],
)
def test_verdicts(results, proof):
    assert proof_of([f"{OURS}; {results}"], OURS, "example.org") == proof


def test_a_domain_above_the_sender_answers_for_it():
    assert proof_of([f"{OURS} 1; dkim=pass header.d=example.org"], OURS, "mail.example.org") == VERIFIED


@pytest.mark.parametrize(
    "results",
    ['reason="; spf=none', "(; spf=none", "x) ; spf=none", "header.d; spf=none", "a.b.c=d", "<x>", "\\", "\0"],
)
def test_what_does_not_parse_proves_nothing(results):
    header = f"{OURS}; dmarc=pass header.from=example.org {results}"
    assert proof_of([header], OURS, "example.org") == UNVERIFIED


@pytest.mark.parametrize(
    "header",
    [
        'mx.google.com;\r\n dkim=pass header.i=@example.org header.s=20230601 header.b="Nh/zE+=";\r\n'
        " arc=pass (i=1 spf=pass);"
        "\r\n spf=pass (google.com: domain of zoe@example.org designates 192.0.2.1 as permitted sender) "
        "smtp.mailfrom=zoe@example.org;\r\n dmarc=pass (p=NONE sp=QUARANTINE dis=NONE) header.from=example.org;"
        "\r\n dara=pass header.i=@example.org",
        "mx.google.com; bimi=skipped (DMARC Policy is not at enforcement); dkim=pass (2048-bit rsa key sha256) "
        "header.d=example.org header.i=@example.org header.b=q/w+e header.a=rsa-sha256 header.s=s x-bits=2048; "
        "dmarc=pass policy.published-domain-policy=none policy.applied-disposition=none (p=none,d.eval=none) "
        "policy.policy-from=p header.from=example.org; iprev=pass smtp.remote-ip=192.0.2.1 (mail.example.org); "
        "x-tls=pass smtp.version=TLSv1.3 smtp.bits=128/128; x-me-sender=none",
        "MX.google.com 1; spf=pass (sender ip is 2001:db8::1) smtp.rcpttodomain=x.example smtp.mailfrom=<>; "
        "dmarc=pass(p=none) action=none header.from=example.org; spf=none smtp.mailfrom=;",
        '(a) mx.google.com (amavis); dkim=pass reason="pass (just generated, assumed good)" '
        "header.d=example.org; dmarc=pass header.from=example.org",
    ],
)
def test_headers_of_providers_are_read(header):
    assert proof_of([header], "mx.google.com", "example.org") == DMARC


def test_a_proof_suffices_for_weaker_demands():
    assert suffices(DMARC, VERIFIED) and suffices(VERIFIED, VERIFIED) and not suffices(VERIFIED, DMARC)


def test_only_the_topmost_header_of_our_server_counts():
    good, bad = f"{OURS}; dmarc=pass", f"{OURS}; dmarc=fail"
    assert proof_of([bad, good], OURS, "example.org") == UNVERIFIED
    assert proof_of(["other.example; dmarc=fail", good], OURS, "example.org") == VERIFIED
    assert proof_of([f"{OURS}.evil.test; dmarc=pass", f"spf=pass; {OURS}; dmarc=pass"], OURS, "example.org") == ASSERTED
    assert proof_of(["mx.evil.test; dmarc=pass"], OURS, "example.org") == ASSERTED
    assert proof_of([good], "", "example.org") == ASSERTED
    assert proof_of([], OURS, "example.org") == ASSERTED


@pytest.mark.parametrize(
    ("headers", "proof"),
    [
        (["spf=pass smtp.mailfrom=example.org; dkim=pass; dmarc=pass action=none header.from=example.org"], DMARC),
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
