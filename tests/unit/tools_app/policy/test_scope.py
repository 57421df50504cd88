"""Scopes: none, inherit and list, for call, agent, network and installation."""

import json

import pytest

from tools_app.policy.scope import INHERIT, Scope, ScopeMode, of_nullable, of_setting, resolve

NONE = Scope(ScopeMode.NONE)


def only(*names: str) -> Scope:
    return Scope(ScopeMode.LIST, names)


@pytest.mark.parametrize(
    ("levels", "names"),
    [
        # call, agent, network, installation
        ((INHERIT, INHERIT, INHERIT, INHERIT), None),
        ((), None),
        ((INHERIT, INHERIT, INHERIT, only("g")), ("g",)),
        ((INHERIT, INHERIT, only("n"), only("g")), ("n",)),
        ((INHERIT, only("a"), only("n"), only("g")), ("a",)),
        ((only("c"), only("a"), only("n"), only("g")), ("c",)),
        ((NONE, only("a"), only("n"), only("g")), ()),
        ((INHERIT, NONE, only("n"), only("g")), ()),
        ((INHERIT, INHERIT, INHERIT, NONE), ()),
        ((only("c"), NONE, NONE, NONE), ("c",)),
        ((only(), only("a"), INHERIT, INHERIT), ()),
        ((only("a", "b", "a"), INHERIT, INHERIT, INHERIT), ("a", "b")),
    ],
)
def test_the_narrowest_level_that_does_not_inherit_decides(levels, names):
    assert resolve(*levels) == names


def test_an_empty_stored_list_is_none_and_a_missing_one_inherits():
    assert of_nullable(None) == INHERIT
    assert of_nullable([]) == NONE
    assert of_nullable(["a"]) == only("a")


@pytest.mark.parametrize("scope", [INHERIT, NONE, only(), only("a", "b")])
def test_a_scope_is_stored_as_json(scope):
    assert Scope.from_dict(json.loads(json.dumps(scope.to_dict()))) == scope


@pytest.mark.parametrize(
    ("words", "scope"), [([], INHERIT), (["inherit"], INHERIT), (["none"], NONE), (["a", "none"], only("a", "none"))]
)
def test_how_a_setting_is_read(words, scope):
    assert of_setting(words) == scope
