"""Resources, prompts and completion of the MCP server, read by the official client."""

import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from agents_app.configuration import prompt_templates
from agents_app.models import PromptTemplate
from agents_app.rights import VIEW_TEMPLATES
from audit_app.kernel.database import in_db
from audit_app.kernel.ids import new_id
from sessions_app.identity.api_keys import create_api_key
from sessions_app.identity.scopes import RIGHTS
from sessions_app.models import Session
from sessions_app.surfaces.mcp.registry import Argument, ResourceKind, sliced
from tests.integration.sessions_app.surfaces.test_mcp import call, client
from tests.support.rest import make_agent, make_session, make_user
from tests.support.rights import grant
from tools_app.models import Memory
from tools_app.skills import registry as skills
from tools_app.storage import artifacts

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture
def key(alice: Any) -> str:
    return create_api_key(alice, "mcp", scopes=["all"]).key


def make_memory(actor: str, text: str) -> Memory:
    now, origins = Session.objects.first().created_at, "page:example.org"
    return Memory.objects.create(
        agent_id="default",
        actor=actor,
        key="k",
        text=text,
        run_id=new_id(),
        origins=origins,
        created_at=now,
        updated_at=now,
    )


def make_objects(user: Any) -> tuple[Session, artifacts.ArtifactView, Memory]:
    session = make_session(user, turns=2)
    file = artifacts.write_artifact(
        artifacts.Writer(session.pk), "out/notes.md", b"# Notes", media_type="text/markdown"
    )
    return session, file, make_memory(f"user:{user.pk}", "likes tea")


async def read_all(mcp: Any) -> list[Any]:
    """Return all pages of the list of resources."""
    found, cursor = [], None
    while True:
        page = await mcp.list_resources(cursor=cursor)
        found += page.resources
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_own_sessions_files_and_memories_are_listed_and_read(alice: Any, key: str, mode: str) -> None:
    session, file, memory = await in_db(make_objects, alice)
    async with client(key, mode) as mcp:
        listed = {str(one.uri): one for one in await read_all(mcp)}
        templates = await mcp.list_resource_templates()
        texts = {uri: (await mcp.read_resource(uri)).contents[0] for uri in listed}
    of_file, of_memory = f"komand://artifacts/{file.id}", f"komand://memories/{memory.pk}"
    [of_session] = listed.keys() - {of_file, of_memory}
    assert [turn["text"] for turn in json.loads(texts[of_session].text)["turns"]] == ["turn 0", "turn 1"]
    assert (texts[of_file].text, texts[of_file].mime_type, listed[of_file].size) == ("# Notes", "text/markdown", 7)
    assert (texts[of_memory].text, texts[of_memory].meta) == ("likes tea", {"komand/origins": ["page:example.org"]})
    assert [one.uri_template for one in templates.resource_templates] == [
        "komand://artifacts/{artifact}",
        "komand://memories/{memory}",
        "komand://sessions/{session}",
    ]


async def test_resources_of_others_are_neither_listed_nor_found(alice: Any, key: str) -> None:
    session, file, memory = await in_db(make_objects, await in_db(make_user, "bob"))
    async with client(key) as mcp:
        assert await read_all(mcp) == []
        for uri in (
            f"komand://sessions/{session.pk}",
            f"komand://artifacts/{file.id}",
            f"komand://memories/{memory.pk}",
            "komand://artifacts/x",
            "other://x",
        ):
            with pytest.raises(MCPError, match="There is no such") as refused:
                await mcp.read_resource(uri)
            assert (refused.value.code, refused.value.data) == (-32602, {"uri": uri})


async def test_a_binary_file_is_a_blob_and_a_foreign_cursor_is_refused(alice: Any, key: str) -> None:
    session = await in_db(make_session, alice)
    writer = artifacts.Writer(session.pk)
    file = await in_db(artifacts.write_artifact, writer, "out/a.png", b"\x89PNG\xff", media_type="image/png")
    async with client(key) as mcp:
        [content] = (await mcp.read_resource(f"komand://artifacts/{file.id}")).contents
        assert (content.blob, content.mime_type) == ("iVBOR/8=", "image/png")
        for cursor in ("nothing>", "sessions>x"):
            with pytest.raises(MCPError, match="cursor"):
                await mcp.list_resources(cursor=cursor)


async def test_instruction_skills_are_prompts(alice: Any, key: str) -> None:
    data = {"skillId": "brief", "name": "Brief", "version": "1.0.0", "publisherId": "acme", "description": "Write."}
    await in_db(skills.register, {**data, "instruction": {"body": "Be short.", "files": {"a.md": "More."}}})
    await in_db(skills.register, {**data, "skillId": "plain"})
    async with client(key) as mcp:
        [prompt] = (await mcp.list_prompts()).prompts
        whole = await mcp.get_prompt("skill/brief")
        part = await mcp.get_prompt("skill/brief", {"file": "a.md"})
        with pytest.raises(MCPError, match="no such file"):
            await mcp.get_prompt("skill/brief", {"file": "b.md"})
        for name in ("skill/plain", "skill/none", "none"):
            with pytest.raises(MCPError, match="There is no"):
                await mcp.get_prompt(name)
    assert (prompt.name, prompt.title, prompt.arguments[0].required) == ("skill/brief", "Brief", False)
    assert [one.messages[0].content.text for one in (whole, part)] == ["Be short.", "More."]


async def test_templates_are_prompts_of_those_who_may_see_them(alice: Any, key: str) -> None:
    text = "---\ndescription: Greets.\nparameters:\n  name:\n---\nHello {{ name }}."
    await in_db(prompt_templates.create, "greet", text)
    assert await in_db(PromptTemplate.objects.count) == 1
    async with client(key) as mcp:
        assert (await mcp.list_prompts()).prompts == []
        with pytest.raises(MCPError, match="lacks the scope"):
            await mcp.get_prompt("template/greet", {"name": "Ann"})
    await in_db(grant, alice, VIEW_TEMPLATES)
    with_rights = (await in_db(create_api_key, alice, "all", scopes=["mcp", RIGHTS])).key
    async with client(with_rights) as mcp:
        [prompt] = (await mcp.list_prompts()).prompts
        shown = await mcp.get_prompt("template/greet", {"name": "Ann"})
        with pytest.raises(MCPError, match="needs the arguments name"):
            await mcp.get_prompt("template/greet", {})
    assert (prompt.arguments[0].name, shown.messages[-1].content.text) == ("name", "Hello Ann.")


async def test_arguments_are_completed(alice: Any, key: str) -> None:
    session = await in_db(make_session, alice)
    data = {"skillId": "brief", "name": "Brief", "version": "1.0.0", "publisherId": "acme"}
    await in_db(
        skills.register, {**data, "instruction": {"body": "x", "files": {"a.md": "1", "b.md": "2", "ba.md": "3"}}}
    )
    async with client(key) as mcp:
        sessions = ResourceTemplateReference(type="ref/resource", uri="komand://sessions/{session}")
        skill = PromptReference(type="ref/prompt", name="skill/brief")
        keys = await mcp.complete(sessions, {"name": "session", "value": session.key[:5]})
        files = await mcp.complete(skill, {"name": "file", "value": "a."})
    assert keys.completion.values == [session.key]
    assert files.completion.values == ["a.md", "ba.md"]


async def test_the_list_of_agents_has_pages(alice: Any, key: str) -> None:
    for number in range(3):
        await in_db(make_agent, f"agent-{number}")
    first = await call(key, "list_agents", limit=2)
    second = await call(key, "list_agents", limit=2, after=first["next"])
    names = [one["agent"] for page in (first, second) for one in page["agents"]]
    assert names == sorted(names)
    assert {"agent-0", "agent-1", "agent-2"} <= set(names)


async def test_a_key_of_one_agent_sees_what_belongs_to_it(alice: Any) -> None:
    _, _, memory = await in_db(make_objects, alice)
    await in_db(make_agent, "other")
    narrow = (await in_db(create_api_key, alice, "narrow", scopes=["mcp", "agent:other"])).key
    async with client(narrow) as mcp:
        assert await read_all(mcp) == []
        with pytest.raises(MCPError, match="no such memory"):
            await mcp.read_resource(f"komand://memories/{memory.pk}")


def test_uris_are_matched_and_lists_are_sliced() -> None:
    kind = ResourceKind("k", "komand://k/{one}/x", "", "", "", sliced, Argument)  # type: ignore[arg-type]
    assert kind.match("komand://k/a%2Fb/x") == {"one": "a/b"}
    assert kind.match("komand://k/a/b/x") is kind.match("komand://k/a/x/") is None
    assert kind.uri_of({"one": "a/b"}) == "komand://k/a%2Fb/x"
    assert sliced(lambda offset, limit: range(120)[offset : offset + limit], "50") == (range(50, 100), "100")
    assert sliced(lambda offset, limit: range(120)[offset : offset + limit], "100") == (range(100, 120), "")
