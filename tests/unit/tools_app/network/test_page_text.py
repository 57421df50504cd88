"""Conversion of pages to text: decoding, main content, Markdown."""

import time

import pytest

from tools_app.network import html_to_markdown
from tools_app.network.page_text import decode, read


def markdown(html, url="https://example.com/docs/page"):
    return read(html.encode(), media_type="text/html", charset="utf-8", url=url)


def test_a_page_becomes_its_title_and_markdown():
    page = markdown(
        "<title> A &amp; B </title><h1>Head</h1><p>Some <b>bold</b> words.</p><ul><li>one</li><li>two</li></ul>"
    )
    assert page.title == "A & B"
    assert page.text == "# Head\n\nSome **bold** words.\n\n- one\n- two"


def test_what_is_not_for_reading_is_dropped():
    page = markdown(
        "<nav>menu</nav><script>alert(1)</script><style>p{}</style><noscript>js!</noscript><template>t</template>"
        "<p>text</p><!-- note --><footer>imprint</footer>"
    )
    assert page.text == "text"


def test_links_become_absolute_and_only_web_links_stay():
    page = markdown(
        '<a href="../x?y">rel</a> <a href="javascript:a()">js</a> <a href="#top">top</a> <a href="http://[">bad</a>'
    )
    assert page.text == "[rel](https://example.com/x?y) js top bad"


def test_an_image_is_its_description():
    assert markdown('<p>see <img src="data:image/png;base64,AAAA" alt="a cat"></p>').text == "see a cat"


def test_the_main_part_is_taken_when_it_holds_the_text():
    assert markdown(f"<p>banner</p><main>{'word ' * 60}</main>").text.startswith("word")
    assert "banner" in markdown("<p>banner</p><main>tiny</main>").text


def test_text_that_is_no_html_stays_as_it_is():
    page = read(b'{"a": "<b>"}', media_type="application/json", charset=None, url="https://example.com/")
    assert (page.title, page.text) == ("", '{"a": "<b>"}')


def test_html_is_recognised_without_a_media_type():
    assert read(b" <p>hi</p>", media_type="", charset=None, url="https://example.com/").text == "hi"


def test_a_page_nested_deeper_than_the_converter_can_follow_is_still_read():
    assert markdown("<div>" * 5_000 + "deep").text == "deep"


def test_of_an_endless_page_the_beginning_is_read(monkeypatch):
    monkeypatch.setattr(html_to_markdown, "_MAX_HTML_CHARACTERS", 1_000)
    page = markdown("<p>word</p>" * 1_000)
    assert page.is_cut
    assert page.text.startswith("word")


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("café".encode(), "utf-8", "café"),
        ("café".encode("latin-1"), "iso-8859-1", "café"),
        ("„ß“".encode("cp1252"), "latin1", "„ß“"),
        ("привет".encode("koi8-r"), "koi8-r", "привет"),
        ("こんにちは".encode("shift_jis"), "Shift_JIS", "こんにちは"),
        ("\ufeffcafé".encode(), "koi8-r", "café"),
        ("café".encode("utf-16"), None, "café"),
        ("café".encode("latin-1"), "utf-8", "café"),
        ("café".encode(), "no-such-charset", "café"),
        ("café".encode(), "punycode", "café"),
        ("café".encode(), "rot13", "café"),
        ("café".encode(), "a\0b", "café"),
        (b"a\x81\xffb", None, "a\ufffdÿb"),
    ],
)
def test_a_body_is_decoded_by_what_fits_it(body, charset, text):
    assert decode(body, charset=charset, is_html=False) == text


def test_a_character_that_was_cut_in_two_is_dropped():
    assert decode("café".encode()[:-1], charset="utf-8", is_html=False, is_cut=True) == "caf"


def test_a_page_may_name_its_own_charset():
    assert decode("<meta charset=koi8-r>привет".encode("koi8-r"), charset=None, is_html=True).endswith("привет")


@pytest.mark.parametrize(
    "repeated", ["<!--", "<!--x>", "<a ", '<a a="', "</a ", "<![if x>", "<img alt=y>", '<a href="http://x/">', "<nav>"]
)
def test_the_work_grows_with_the_length_of_a_page(repeated: str):
    def seconds(length: int) -> float:
        page = (repeated * (length // len(repeated))).encode()
        taken = []
        for _ in range(2):  # the least: others may use the machine
            before = time.thread_time()
            read(page, media_type="text/html", charset=None, url="http://x.example/")
            taken.append(time.thread_time() - before)
        return min(taken)

    assert seconds(40_000) < 10 * max(seconds(10_000), 0.1)


def test_markup_without_an_end_is_text():
    page = b"<p>one <!-- two <![endif]> three --> four <!-- five <b>six</b> <a href='x"
    found = read(page, media_type="text/html", charset=None, url="")
    assert found.text == "one  four <!-- five **six** <a href='x"
