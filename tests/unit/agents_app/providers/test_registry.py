from datetime import UTC, datetime

import pytest

from agents_app.models import ModelProvider
from agents_app.providers import registry
from agents_app.providers.base import ProviderError
from agents_app.providers.inline_reasoning import BY_TAGS, OFF, PREFILLED
from audit_app.kernel.errors import NotFound
from tools_app.secrets import vault


def row(**fields: object) -> ModelProvider:
    values = {"id": 1, "name": "main", "kind": "demo", "updated_at": datetime(2026, 1, 1, tzinfo=UTC), **fields}
    return ModelProvider(**values)


@pytest.fixture(autouse=True)
async def _nothing_open():
    await registry.aclose_all()
    yield
    await registry.aclose_all()


def test_kinds_are_known_without_importing_them() -> None:
    registry.register("not-importable", "no.such.module.Provider")
    assert {"demo", "openai", "scripted", "not-importable"} <= set(registry.kinds())
    with pytest.raises(ImportError):
        registry.load("not-importable")


def test_an_unknown_kind_is_answered_with_the_known_ones() -> None:
    with pytest.raises(NotFound, match="demo"):
        registry.load("nope")
    with pytest.raises(ProviderError, match=r"'main' cannot be used.*'nope'.*demo"):
        registry.open_provider(row(kind="nope"))


def test_a_row_is_opened_once_until_it_changes() -> None:
    first = registry.open_provider(row())
    assert registry.open_provider(row()) is first
    changed = registry.open_provider(row(default_model="demo-instant", updated_at=datetime(2026, 1, 2, tzinfo=UTC)))
    assert changed is not first and changed.default_model == "demo-instant"


def test_the_mode_of_reasoning_in_the_text_is_that_of_the_row() -> None:
    assert registry.open_provider(row()).inline_reasoning == ""
    assert registry.build(row(inline_reasoning="off")).inline_reasoning == "off"
    assert {mode for mode, _ in ModelProvider.INLINE_REASONING} == {BY_TAGS, PREFILLED, OFF}


def test_rows_do_not_share_a_provider() -> None:
    assert registry.open_provider(row(id=1)) is not registry.open_provider(row(id=2))


def test_the_key_is_unsealed_for_the_provider() -> None:
    provider = registry.open_provider(row(kind="openai", api_key_sealed=vault.seal("sk-test"), base_url="http://x/v1"))
    assert (provider.kind, provider.api_key, provider.base_url) == ("openai", "sk-test", "http://x/v1")


def test_a_key_that_cannot_be_unsealed_is_a_clear_error() -> None:
    with pytest.raises(ProviderError, match="Enter it again") as caught:
        registry.open_provider(row(api_key_sealed="garbage"))
    assert caught.value.code == "model_auth"


def test_a_provider_that_is_switched_off_is_not_opened() -> None:
    with pytest.raises(ProviderError, match="disabled"):
        registry.open_provider(row(is_enabled=False))
