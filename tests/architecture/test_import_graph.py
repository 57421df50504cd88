import ast

from tests.architecture.import_graph import circles, floors, imports_of_modules, imports_of_rooms

SOURCES = {
    "app/__init__.py": "",
    "app/top.py": "import app.shelf.one as one\nfrom app import middle",
    "app/middle/__init__.py": "",
    "app/middle/part.py": "def late():\n    from app.shelf.one import Name",
    "app/shelf/__init__.py": "",
    "app/shelf/one.py": "from app.shelf import two\nimport json",
    "app/shelf/two.py": "",
}


def rooms(**changed: str) -> dict[str, set[str]]:
    sources = SOURCES | {f"app/{name}.py": text for name, text in changed.items()}
    return imports_of_rooms(imports_of_modules({path: ast.parse(text) for path, text in sources.items()}), "app")


def test_imports_between_rooms() -> None:
    assert rooms() == {"top": {"shelf", "middle"}, "middle": {"shelf"}, "shelf": set()}


def test_floors_without_a_circle() -> None:
    assert circles(rooms()) == [] and floors(rooms()) == [["top"], ["middle"], ["shelf"]]


def test_an_import_for_types_alone_closes_a_circle() -> None:
    found = rooms(
        low="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from app.middle import part", top="import app.low"
    )
    assert circles(found) == []
    found["shelf"].add("low")
    assert circles(found) == [["low", "middle", "shelf"]]
    assert floors(found) == [["top"], ["low", "middle", "shelf"]]
