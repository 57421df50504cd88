"""The SSRF guard: no URL reaches an address that is not public."""

import socket
import threading
import time
from ipaddress import ip_address

import pytest

from tools_app.network.ip_ranges import is_public
from tools_app.network.ssrf_guard import RefusedTargetError, check_url, resolve
from tools_app.types import ToolError

REFUSED_ADDRESSES = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "169.254.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "3fff::1",
    "3ffe::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%lo",
    "fec0::1",
    "ff02::1",
    "2606:4700::1111%eth0",
]
PUBLIC_ADDRESSES = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "2a00:1450::1",
    "64:ff9b::808:808",
]


@pytest.mark.parametrize("address", REFUSED_ADDRESSES)
def test_an_address_that_not_everybody_can_reach_is_not_public(address):
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
def test_an_ordinary_address_is_public(address):
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        # IPv4, as it is and in disguise
        *(f"http://{address}/" for address in REFUSED_ADDRESSES if ":" not in address),
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://0/",
        "http://127.0.0.1./",
        "http://134744072/",
        "http://8.8.2056/",
        "http://①②⑦.0.0.1/",
        "http://127。0。0。1/",
        "http://%31%32%37.0.0.1/",
        "http://127%2e0%2e0%2e1/",
        "http://256.256.256.256/",
        # IPv6
        *(f"http://[{address}]/" for address in REFUSED_ADDRESSES if ":" in address and "%" not in address),
        "http://[fe80::1%25lo]/",
        "http://[2606:4700::1111%25eth0]/",
        "http://[::1/",
        "http://[127.0.0.1]/",
        "http://[v1.x]/",
        # names
        "http://localhost/",
        "http://LOCALHOST./",
        "http://a.localhost/",
        "http://printer.local/",
        "http://redis/",
        "http://metadata.google.internal/",
        "http://metadata.google.internal./",
        "http://nas.lan/",
        "http://x.home.arpa/",
        "http://lоcalhost/",
        "http://a..com/",
        "http://-a.com/",
        "http://.com/",
        "http://" + "a" * 64 + ".com/",
        # tricks of writing
        "http://user:pw@example.com/",
        "http://user@example.com/",
        "http://a@127.0.0.1/",
        "http://a#@b/",
        "http://example.com@127.0.0.1/",
        "http://127.0.0.1#@example.com/",
        "http://127.0.0.1?@example.com/",
        "http:\\\\127.0.0.1\\",
        "http://example.com\\@127.0.0.1/",
        "http://exa\tmple.com/",
        "http://exam\nple.com/",
        "http://example.com/\r\nHost: x",
        "http://exa mple.com/",
        "http://example.com:80:22/",
        "http://example.com:-80/",
        "http://",
        "http:///path",
        "//example.com/",
        "example.com",
        "http:example.com",
        "http://" + "a" * 3000 + ".com/",
        # schemes
        "file:///etc/passwd",
        "gopher://example.com/",
        "ftp://example.com/",
        "dict://example.com/",
        "unix:///run/x.sock",
        "data:text/html,hi",
        "javascript:alert(1)",
        "ws://example.com/",
        "HTTPX://example.com/",
        "",
        # ports
        *(f"http://example.com:{port}/" for port in (0, 21, 22, 25, 5432, 6379, 8000, 8080, 65536, 99999999)),
    ],
)
def test_a_url_that_may_lead_inside_is_refused_without_a_look_up(url, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: pytest.fail("it was looked up"))
    with pytest.raises(RefusedTargetError):
        check_url(url, allowed_private=())


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://example.com", "example.com", 80),
        ("https://Example.COM./a?b=c#d", "example.com", 443),
        ("https://example.com:443/", "example.com", 443),
        ("http://example.com:443/", "example.com", 443),
        ("http://1.1.1.1/", "1.1.1.1", 80),
        ("https://[2606:4700:4700::1111]/", "2606:4700:4700::1111", 443),
        ("https://bücher.example/", "xn--bcher-kva.example", 443),
        (" https://example.com/a%20b ", "example.com", 443),
    ],
)
def test_an_ordinary_url_is_a_target(url, host, port):
    target = check_url(url, allowed_private=())
    assert (target.host, target.port) == (host, port)


def test_a_refusal_costs_next_to_nothing():
    started = time.thread_time()
    for _ in range(100):
        with pytest.raises(RefusedTargetError):
            check_url("http://169.254.169.254/latest/meta-data/", allowed_private=())
    assert (time.thread_time() - started) / 100 < 0.005


def test_only_the_named_private_pair_is_let_through():
    allowed = {"127.0.0.1:8000", "[::1]:8000", "intranet:80"}
    for url in ("http://127.0.0.1:8000/", "http://[::1]:8000/", "http://Intranet/"):
        assert check_url(url, allowed_private=allowed)
    for url in ("http://127.0.0.1:8001/", "http://127.0.0.2:8000/", "http://u@127.0.0.1:8000/", "ftp://intranet:80/"):
        with pytest.raises(RefusedTargetError):
            check_url(url, allowed_private=allowed)


@pytest.fixture
def dns(monkeypatch):
    """Make the system's resolver return these addresses, in turn."""
    asked = []

    def answers(*rounds):
        queue = list(rounds)

        def getaddrinfo(host, port, **kwargs):
            asked.append(host)
            return [(None, None, 0, "", (address, port)) for address in queue.pop(0)]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return asked

    return answers


def test_a_name_is_resolved_once_to_the_addresses_that_were_checked(dns):
    asked = dns(["8.8.8.8", "8.8.8.8", "2001:4860:4860::8888"])
    assert resolve("dns.google", 443, seconds=5, allowed_private=()) == ("8.8.8.8", "2001:4860:4860::8888")
    assert asked == ["dns.google"]


@pytest.mark.parametrize(
    "answers", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["8.8.8.8", "::1"], ["8.8.8.8", "fe80::1%eth0"]]
)
def test_one_private_answer_refuses_the_name_without_telling_the_address(dns, answers):
    dns(answers)
    with pytest.raises(RefusedTargetError) as error:
        resolve("rebind.example", 80, seconds=5, allowed_private=())
    assert not any(address in str(error.value) for address in answers)


def test_a_named_private_pair_may_resolve_to_anything(dns):
    dns(["10.0.0.1"])
    assert resolve("wiki.corp", 8080, seconds=5, allowed_private={"wiki.corp:8080"}) == ("10.0.0.1",)


def test_an_address_is_not_looked_up(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: pytest.fail("it was looked up"))
    assert resolve("1.1.1.1", 80, seconds=5, allowed_private=()) == ("1.1.1.1",)
    with pytest.raises(RefusedTargetError):
        resolve("::1", 80, seconds=5, allowed_private=())


def test_a_name_that_is_not_found_is_no_refusal(monkeypatch):
    def fail(*args, **kwargs):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(ToolError, match="could not be found"):
        resolve("nowhere.example", 80, seconds=5, allowed_private=())


def test_a_resolver_that_does_not_answer_is_not_waited_for(monkeypatch):
    given_up = threading.Event()

    def answer_late(*args, **kwargs):
        given_up.wait(30)
        return []

    monkeypatch.setattr("tools_app.network.ssrf_guard.socket.getaddrinfo", answer_late)
    with pytest.raises(ToolError, match="could not be looked up"):
        resolve("slow.example", 80, seconds=0.05, allowed_private=())
    given_up.set()
