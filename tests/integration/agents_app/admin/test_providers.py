"""Model providers in the admin: a test with one small call, and their models to choose from."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from agents_app.models import ModelProvider
from audit_app.models import AuditEntry
from tests.fakes.model_server import ModelServer
from tests.support.html_forms import fields_of
from tools_app.secrets import vault

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

PROVIDERS = "/admin/agents_app/modelprovider/"
KEY = "sk-test-0123456789abcdefghij"
WRONG = "sk-wrong-0123456789abcdef"
SUBMITTED = {"_form_submitted": "True"}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(api_key=KEY) as running:
        yield running


@pytest.fixture
def provider(db, server) -> ModelProvider:
    fields = {"name": "acme", "kind": "openai", "base_url": server.base_url}
    return ModelProvider.objects.create(**fields, api_key_sealed=vault.seal(KEY))


def page_of(provider: ModelProvider, action: str) -> str:
    return f"/admin/agents_app/modelprovider/{provider.pk}/{action}/"


def test_a_provider_is_tested_with_one_small_call(pages, provider, server):
    shown = pages.post(page_of(provider, "test"), SUBMITTED, follow=True).content.decode()
    assert "fake answered in" in shown and "It lists 1 model." in shown
    assert [call.path for call in server.requests] == ["/v1/models", "/v1/chat/completions"]
    assert AuditEntry.objects.get(action="ModelProviderTested").details == {"provider": "acme"}


@pytest.mark.parametrize(
    ("key", "base_url", "error"),
    [
        (WRONG, "", "refused the API key. Set a valid one"),
        ("", "", "requires an API key, but none is set"),
        (KEY, "http://127.0.0.1:1/v1", "Check that it runs and that the provider&#x27;s base URL is right"),
        (KEY, "nonsense", "base URL is not valid"),
    ],
)
def test_a_failed_test_shows_what_to_do_and_no_key(pages, provider, key, base_url, error):
    provider.base_url = base_url or provider.base_url
    provider.api_key_sealed = vault.seal(key) if key else ""
    provider.save()
    shown = pages.post(page_of(provider, "test"), SUBMITTED, follow=True).content.decode()
    assert error in shown and KEY not in shown and WRONG not in shown


def test_the_default_model_is_chosen_from_the_list(pages, provider):
    assert 'value="fake"' in pages.get(page_of(provider, "models")).content.decode()
    pages.post(page_of(provider, "models"), {"model": "another"})
    provider.refresh_from_db()
    assert provider.default_model == ""
    pages.post(page_of(provider, "models"), {"model": "fake"})
    provider.refresh_from_db()
    assert provider.default_model == "fake"
    assert AuditEntry.objects.get(action="ModelProviderUpdated").details["fields"] == ["Default model"]


def test_who_may_only_look_tests_nothing(staff, provider, server):
    client = staff("agents_app.view_modelprovider")
    assert client.post(page_of(provider, "test"), SUBMITTED).status_code == 403
    assert client.get(page_of(provider, "models")).status_code == 403
    assert not server.requests


def test_prices_that_nobody_entered_are_empty(pages: Client, settings: Any) -> None:
    settings.KOMAND_CURRENCY = "CHF"
    page = f"{PROVIDERS}add/"
    html = pages.get(page).content.decode()
    assert "Input price (CHF)" in html and "Output price (CHF)" in html
    shown = fields_of(html, "form#modelprovider_form")
    assert shown["input_price"] == shown["output_price"] == [""]
    assert pages.post(page, {**shown, "name": "free"}).status_code == 302
    row = ModelProvider.objects.get(name="free")
    assert (row.input_price, row.output_price, row.price) == (None, None, None)
    told = pages.post(page, {**shown, "name": "half", "input_price": "2"}).content.decode()
    assert "Enter both prices, or none." in told
    told = pages.post(page, {**shown, "name": "ones", "input_price": "1", "output_price": "1"}).content.decode()
    assert "Two prices of 1 stand for none" in told
    assert not ModelProvider.objects.filter(name__in=("half", "ones")).exists()


def test_two_stored_prices_of_one_are_shown_empty_and_stand_for_none(pages: Client) -> None:
    row = ModelProvider.objects.create(name="old", kind="demo", input_price=1.0, output_price=1.0)
    shown = fields_of(pages.get(f"{PROVIDERS}{row.pk}/change/").content.decode(), "form#modelprovider_form")
    assert row.price is None and shown["input_price"] == [""]
