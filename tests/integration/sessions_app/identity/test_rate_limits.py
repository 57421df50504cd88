"""Rate limits in Valkey, and the client addresses."""

import pytest
from django.test import RequestFactory

from audit_app.kernel import valkey as valkey_clients
from audit_app.kernel.circuit_breaker import Breaker
from audit_app.kernel.errors import RateLimited
from sessions_app.identity import client_ip, rate_limits
from sessions_app.identity.rate_limits import Limit

TWICE = Limit("test", 2, 60)


def _request(remote: str, forwarded: str = ""):
    headers = {"HTTP_X_FORWARDED_FOR": forwarded} if forwarded else {}
    return RequestFactory().get("/", REMOTE_ADDR=remote, **headers)


def test_the_request_after_the_last_permit_is_refused_with_the_time_to_wait(valkey):
    rate_limits.take(TWICE, "user:1")
    rate_limits.take(TWICE, "user:1")
    with pytest.raises(RateLimited, match="2 are allowed in 60 seconds") as refusal:
        rate_limits.take(TWICE, "user:1")
    assert 1 <= refusal.value.retry_after_seconds <= 60


def test_clients_and_limits_are_counted_separately(valkey):
    for party in ("user:1", "user:2"):
        for limit in (TWICE, Limit("other", 2, 60)):
            rate_limits.take(limit, party)
            rate_limits.take(limit, party)


def test_a_refused_request_does_not_lengthen_the_window(valkey):
    rate_limits.take(Limit("test", 1, 60), "user:1")
    (key,) = valkey.keys("*limit:test*")
    valkey.expire(key, 7)
    with pytest.raises(RateLimited) as refusal:
        rate_limits.take(Limit("test", 1, 60), "user:1")
    assert refusal.value.retry_after_seconds <= 7


def test_a_new_window_opens_when_the_old_one_has_ended(valkey):
    rate_limits.take(Limit("test", 1, 60), "user:1")
    valkey.delete(*valkey.keys("*limit:test*"))
    rate_limits.take(Limit("test", 1, 60), "user:1")


def test_zero_permits_mean_no_limit(valkey):
    for _ in range(5):
        rate_limits.take(Limit("test", 0, 60), "user:1")
    assert not valkey.keys("*")


def test_requests_are_allowed_at_once_while_valkey_is_unavailable(monkeypatch, settings, caplog):
    asked = []
    open_client = valkey_clients.sync_client.__wrapped__  # not the one that this process keeps

    def client():
        asked.append(1)
        return open_client()

    settings.KOMAND_REDIS_URL = "unix:///nowhere/valkey.sock"
    monkeypatch.setattr(valkey_clients, "sync_client", client)
    monkeypatch.setattr(rate_limits, "_breaker", Breaker(slow_seconds=0))
    for _ in range(5):
        rate_limits.take(TWICE, "user:1")
    assert len(asked) == 1
    assert "not enforced" in caplog.text


@pytest.mark.parametrize(
    ("remote", "forwarded", "address"),
    [
        ("10.1.2.3", "", "10.1.2.3"),
        ("10.1.2.3", "203.0.113.9", "203.0.113.9"),
        ("203.0.113.9", "1.2.3.4", "203.0.113.9"),  # no proxy of ours: the header is a claim
        ("10.1.2.3", "1.2.3.4, 203.0.113.9", "203.0.113.9"),  # the client wrote the first one itself
        ("10.1.2.3", "203.0.113.9, 10.9.9.9", "203.0.113.9"),  # two proxies
        ("10.1.2.3", "nonsense", "0.0.0.0"),
        ("", "203.0.113.9", "203.0.113.9"),  # a proxy on our unix socket
    ],
)
def test_address_is_what_a_trusted_proxy_saw(settings, remote, forwarded, address):
    settings.KOMAND_TRUSTED_PROXIES = ["10.0.0.0/8", "unix"]
    assert client_ip.of_request(_request(remote, forwarded)) == address


def test_forwarded_addresses_do_not_count_without_a_trusted_proxy(settings):
    settings.KOMAND_TRUSTED_PROXIES = []
    assert client_ip.of_request(_request("127.0.0.1", "203.0.113.9")) == "127.0.0.1"
    assert client_ip.of_request(_request("", "203.0.113.9")) == "0.0.0.0"


@pytest.mark.parametrize(
    ("address", "network"),
    [("203.0.113.9", "203.0.113.9"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"), ("::ffff:203.0.113.9", "203.0.113.9")],
)
def test_an_ipv6_client_is_counted_by_its_network(address, network):
    assert client_ip.network_of(address) == network
