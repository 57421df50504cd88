"""Manifests: parsed fields, implied permissions, refusals, signatures."""

import pytest

from audit_app.kernel.errors import InvalidInput
from tools_app.skills.folder import read_folder
from tools_app.skills.manifest import Kind, digest_of, is_signed, read_manifest
from tools_app.skills.permissions import BadPermission, Permission, missing, read_permission
from tools_app.skills.versions import is_version, order
from tools_app.types import Effect, Risk

PLAIN = {"skillId": "crm-lookup", "name": "CRM", "version": "1.2.0", "publisherId": "acme"}
HTTP = {"method": "GET", "url": "https://api.example.com/v1", "headers": {"X-Key": "{{credential:crm}}"}}


def manifest(**fields):
    return read_manifest({**PLAIN, **fields})


def test_a_manifest_as_the_documentation_shows_it_is_read():
    read = manifest(
        description="Looks customers up.",
        inputSchema={"type": "object", "properties": {"id": {"type": "string"}}},
        outputSchema={"type": "object"},
        declaredToolAccess=["database"],
        isVerified=True,
        signatureHash=None,
        requiredPermissions=["crm:read", {"resource": "crm", "access": "write", "scope": None}],
    )
    assert (read.kind, read.version, read.declared_tool_access) == (Kind.DECLARED, "1.2.0", ("database",))
    assert read.required == (Permission("crm", "read"), Permission("crm", "write"))


def test_an_http_skill_needs_its_host_and_its_credentials():
    read = manifest(http=HTTP, requiredPermissions=["crm:read"])
    assert [str(permission) for permission in read.required] == [
        "crm:read",
        "network:outbound:api.example.com",
        "credential:use:crm",
    ]
    assert (read.kind, read.effect, read.risk) == (Kind.HTTP, Effect.READ, Risk.MEDIUM)


def test_a_skill_that_changes_something_counts_as_risky():
    read = manifest(http={**HTTP, "method": "POST"})
    assert (read.effect, read.risk) == (Effect.ONCE, Risk.HIGH)


def test_an_mcp_skill_needs_its_tool_and_instructions_need_nothing():
    assert manifest(mcp={"server": "files", "tool": "read"}).required == (Permission("mcp", "call", "files/read"),)
    read = manifest(instruction={"body": "Do it so.", "files": {"a.md": "x"}})
    assert (read.required, read.effect, read.risk) == ((), Effect.READ, Risk.LOW)


@pytest.mark.parametrize(
    "fields",
    [
        {"skillId": "CRM"},
        {"skillId": "a--b"},
        {"skillId": "x" * 58},
        {"skillId": None},
        {"name": ""},
        {"version": "1.2"},
        {"version": "01.2.3"},
        {"version": "1.2.3 "},
        {"publisherId": "a b"},
        {"extra": 1},
        {"inputSchema": {"type": "string"}},
        {"inputSchema": {"type": 7}},
        {"inputSchema": []},
        {"inputSchema": {"type": "object", "properties": {"timeout_seconds": {}}}},
        {"inputSchema": {"type": "object", "properties": {"a": {"$ref": "https://evil.example/x"}}}},
        {"outputSchema": {"type": "nothing"}},
        {"requiredPermissions": ["crm"]},
        {"requiredPermissions": [{"a": 1}]},
        {"http": {**HTTP, "url": "https://{{input.h}}/"}},
        {"http": {"method": "TRACE", "url": "https://a.example"}},
        {"http": HTTP, "mcp": {"server": "a", "tool": "b"}},
        {"instruction": {"body": ""}},
        {"timeoutSeconds": 0},
        {"description": "a\0b"},
        {"description": "\ud800"},
        {"risk": "none"},
        {"description": "x" * 600_000},
    ],
)
def test_an_invalid_manifest_is_refused_with_a_reason(fields):
    with pytest.raises(InvalidInput) as caught:
        manifest(**fields)
    assert caught.value.code == "bad_manifest" and len(caught.value.message) < 600


def test_deep_nesting_is_refused():
    deep: dict = {}
    for _ in range(5_000):
        deep = {"properties": deep}
    with pytest.raises(InvalidInput):
        manifest(inputSchema={"type": "object", "properties": deep})


def test_regular_expressions_of_strangers_are_not_run():
    read = manifest(inputSchema={"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$"}}})
    assert read.input_schema["properties"]["a"] == {"type": "string"}


def test_the_signature_is_the_digest_of_everything_but_itself():
    digest = digest_of({**PLAIN, "isVerified": True})
    assert digest == digest_of(dict(reversed(PLAIN.items())))
    assert is_signed(manifest(signatureHash=digest), digest)
    assert not is_signed(manifest(signatureHash=digest), digest_of({**PLAIN, "name": "Other"}))
    assert not is_signed(manifest(), digest)


@pytest.mark.parametrize("value", ["crm:read", {"resource": "crm", "access": "read"}])
def test_both_shapes_of_a_permission_are_one(value):
    assert read_permission(value) == Permission("crm", "read")


@pytest.mark.parametrize("value", ["", "crm", "crm:", ":read", "a b:c", 7, None, {"resource": "a"}, "a:b:c\n", ["a:b"]])
def test_what_is_no_permission_is_refused(value):
    with pytest.raises(BadPermission):
        read_permission(value)


def test_a_permission_without_a_scope_covers_every_scope():
    wide, narrow = Permission("network", "outbound"), Permission("network", "outbound", "a.example")
    assert missing([narrow], [wide]) == ()
    assert missing([wide], [narrow]) == (wide,)
    assert missing([narrow], [Permission("network", "outbound", "b.example")]) == (narrow,)


def test_versions_are_ordered_as_semver_has_it():
    rising = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0",
        "1.0.1",
        "1.10.0",
    ]
    falling = rising[::-1]
    falling.sort(key=order)
    assert falling == rising
    assert is_version("1.0.0-rc.1+build.5") and order("1.0.0+a") == order("1.0.0+b")
    assert not is_version("v1.0.0") and not is_version("1.0.0-01")


def test_a_folder_with_a_skill_file_is_an_instruction_skill(tmp_path):
    (tmp_path / "SKILL.md").write_text(
        "---\nname: Weekly Report\ndescription: >\n  How we write\n  reports.\n"
        "metadata:\n  version: 2.0.1\n  author: acme\n"
        "---\n# Reports\n\nBe short.\n"
    )
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "style.md").write_text("No adverbs.")
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\0\xff")
    (tmp_path / ".env").write_text("SECRET=1")
    (tmp_path / "out").symlink_to("/etc/passwd")
    read = read_manifest(read_folder(tmp_path))
    assert (read.skill_id, read.version, read.publisher_id) == ("weekly-report", "2.0.1", "acme")
    assert read.description == "How we write reports."
    assert read.instructions == "# Reports\n\nBe short."
    assert read.files == {"reference/style.md": "No adverbs."}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# no front matter",
        "---\nname: a\n---\nx",
        "---\n- a\n---\n",
        "---\nname: [\n---\n",
        "---\n!!python/object:os.system x\n---\n",
        '---\nname: !!int ""\n---\n',
    ],
)
def test_a_folder_without_a_proper_skill_file_is_refused(tmp_path, text):
    (tmp_path / "SKILL.md").write_text(text)
    with pytest.raises(InvalidInput):
        read_folder(tmp_path)
