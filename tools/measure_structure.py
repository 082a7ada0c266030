#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how the code is structured and prints the figures as a table.

The static figures come from the source files: lines of the core and of the extensions, modules per folder, circles of
modules and of folders, imports of extensions by the core, names, tests, migrations, terms of the glossary.
``tools/request_trips.py`` counts the files and functions that requests pass.

Run it with the Python of the test environment: ``.venv/bin/python tools/measure_structure.py [--static] [--json]``.
"""

import argparse
import ast
import collections
import configparser
import functools
import graphlib
import json
import pathlib
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from request_trips import trip_figures, trips

ROOT = pathlib.Path(__file__).resolve().parents[1]

#: Modules of one name that several rooms have by convention.
_CONVENTIONAL = {"__init__", "base", "options"}

#: A private name. The methods of named tuples are public.
_PRIVATE = re.compile(r"_(?!_|asdict$|fields$|make$|replace$)")

_SCHEDULERS = re.compile(r"\b(SchedulerManager|SchedulerService)\(|\"tonnage-(standalone|scheduler)\"")

#: The attributes of nodes of a syntax tree that hold a name, by the form under which ``words.toml`` exempts it.
_NAMES = {"id": "name", "attr": "attribute", "arg": "argument", "name": "definition"}


@dataclass(frozen=True)
class Module:
    """A Python file of a room, parsed."""

    path: pathlib.Path
    tree: ast.Module
    lines: int

    @property
    def room(self) -> str:
        """The folder at the top of the repository."""
        return self.path.parts[0]

    @property
    def name(self) -> str:
        """The dotted name under which the module is imported."""
        parts = self.path.with_suffix("").parts
        prefix = [] if self.room == "tonnage" else ["tonnage"]
        return ".".join([*prefix, *(parts[:-1] if parts[-1] == "__init__" else parts)])

    @property
    def is_core(self) -> bool:
        """Whether every installation needs the module: it is neither in an extension nor in the driver for CSI."""
        return self.room != "extensions" and self.path.parts[:2] != ("drivers", "csi")


def rooms() -> list[str]:
    """Return the folders at the top of the repository that setup.cfg maps into the package ``tonnage``."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    pairs = [line.split("=", 1) for line in parser["options"]["package_dir"].split("\n") if line]
    return sorted({folder.strip() for _, folder in pairs} - {"tonnage"})


@functools.cache
def product_modules() -> Sequence[Module]:
    """Return all modules of all rooms and of the package ``tonnage`` itself, without generated code."""
    paths = sorted((ROOT / "tonnage").glob("*.py"))
    paths += [path for room in rooms() for path in sorted((ROOT / room).rglob("*.py"))]
    return tuple(
        Module(path.relative_to(ROOT), ast.parse(text), text.count("\n"))
        for path in paths
        if not path.name.endswith("_pb2.py")
        for text in [path.read_text(encoding="utf-8")]
    )


def modules_per_folder(modules: Sequence[Module]) -> dict[str, int]:
    """Return the number of modules in each folder. Database migrations and ``__init__`` modules do not count."""
    return dict(collections.Counter(str(module.path.parent) for module in _named(modules)))


def _named(modules: Sequence[Module]) -> list[Module]:
    """Return the modules that somebody named: all but ``__init__`` modules and database migrations."""
    return [module for module in modules if module.path.stem != "__init__" and "migrations" not in module.path.parts]


def words_of_module_names(modules: Sequence[Module]) -> set[str]:
    """Return the words of which the names of modules consist."""
    return {word for module in _named(modules) for word in module.path.stem.split("_")}


@functools.cache
def word_lists() -> Mapping[str, Any]:
    """Return the lists of words that names are checked with, from ``tests/unit/words.toml``."""
    return tomllib.loads((ROOT / "tests" / "unit" / "words.toml").read_text(encoding="utf-8"))


def dialect_words(modules: Sequence[Module]) -> list[str]:
    """Return the identifiers that say nothing of storage, such as ``found``, with the places where they occur."""
    dialect = word_lists()["dialect"]
    words = set(dialect["words"])
    exempt = [(rule["word"], rule["form"], rule.get("folder", "")) for rule in dialect["exempt"]]
    return [
        f"{module.path}:{getattr(node, 'lineno', 0)} {name}"
        for module in modules
        for node in ast.walk(module.tree)
        for field, form in _NAMES.items()
        if (name := getattr(node, field, None)) in words
        and not any(
            (name, form) == (word, exempt_form) and str(module.path).startswith(folder)
            for word, exempt_form, folder in exempt
        )
    ]


def modules_without_tests(modules: Sequence[Module]) -> list[str]:
    """Return the modules of which no file ``test_<module>.py`` stands in the same folder below ``tests/unit``."""
    return [
        str(module.path)
        for module in _named(modules)
        if not (_test_folder(module) / f"test_{module.path.name}").exists()
    ]


def _test_folder(module: Module) -> pathlib.Path:
    unit_tests = ROOT / "tests" / "unit"
    return unit_tests if module.room == "tonnage" else unit_tests / module.path.parent


def migrations(modules: Sequence[Module]) -> list[str]:
    """Return the Alembic versions of the core and of all extensions."""
    return [
        str(module.path)
        for module in modules
        if module.path.parent.name == "migrations" and module.path.stem != "__init__"
    ]


def glossary_terms() -> list[str]:
    """Return the terms that the glossary of the documentation explains."""
    text = (ROOT / "docs" / "glossary.rst").read_text(encoding="utf-8")
    return re.findall(r"^   (\S.*)$", text.partition(".. glossary::")[2], re.MULTILINE)


def shared_names(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Return the names of modules that stand in more than one room, with these rooms."""
    rooms_by_stem: dict[str, set[str]] = collections.defaultdict(set)
    for module in modules:
        if module.path.stem not in _CONVENTIONAL and module.room != "tonnage":
            rooms_by_stem[module.path.stem].add(module.room)
    return {stem: rooms for stem, rooms in rooms_by_stem.items() if len(rooms) > 1}


def _is_typing_only(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _imports(node: ast.AST) -> Iterator[ast.ImportFrom]:
    """Yield the imports of a module, those inside functions too; imports for type checkers alone are left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            yield child
        elif not (isinstance(child, ast.If) and _is_typing_only(child)):
            yield from _imports(child)


def import_graph(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Return the modules of Tonnage that each module imports."""
    names = {module.name for module in modules}
    graph: dict[str, set[str]] = {}
    for module in modules:
        imported = {
            f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in names else str(node.module)
            for node in _imports(module.tree)
            for alias in node.names
        }
        graph[module.name] = (imported & names) - {module.name}
    return graph


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the modules of one import circle, none if there is no circle."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def _room_of(module: str) -> str:
    """Return the room of a module; each extension is a room of its own."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2] if parts[:1] == ["extensions"] else parts[:1])


def folder_graphs(modules: Sequence[Module]) -> dict[str, dict[str, set[str]]]:
    """Return, for each room, the folders of the room that each of its folders imports."""
    folders = {module.name: str(module.path.parent) for module in modules}
    graphs: dict[str, dict[str, set[str]]] = collections.defaultdict(lambda: collections.defaultdict(set))
    for importer, imported_modules in import_graph(modules).items():
        for imported in imported_modules:
            if _room_of(importer) == _room_of(imported) and folders[importer] != folders[imported]:
                graphs[_room_of(importer)][folders[importer]].add(folders[imported])
    return graphs


def folder_circles(modules: Sequence[Module]) -> list[list[str]]:
    """Return one circle of folders for each room that has any."""
    return [path for graph in folder_graphs(modules).values() if (path := circle(graph))]


def mutual_folders(modules: Sequence[Module]) -> list[tuple[str, str]]:
    """Return the pairs of folders of a room that import each other."""
    return sorted(
        (folder, imported)
        for graph in folder_graphs(modules).values()
        for folder, imported_folders in graph.items()
        for imported in imported_folders
        if folder < imported and folder in graph.get(imported, ())
    )


def imports_of_extensions(modules: Sequence[Module]) -> list[str]:
    """Return the imports of an extension by a module outside of ``extensions/``."""
    return [
        f"{importer} -> {imported}"
        for importer, imported_modules in import_graph(modules).items()
        for imported in sorted(imported_modules)
        if imported.startswith("tonnage.extensions.") and not importer.startswith("tonnage.extensions")
    ]


def readers_of_enabled_extensions(modules: Sequence[Module]) -> list[str]:
    """Return the places outside of ``tonnage/enabled_extensions.py`` that read the option of that name."""
    return [
        f"{module.path}:{node.lineno}"
        for module in modules
        if module.name != "tonnage.enabled_extensions"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr == "enabled_extensions"
    ]


def _documented(modules: Sequence[Module]) -> Iterator[tuple[Module, ast.AST, str]]:
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield module, node, text


def docstrings_with_what(modules: Sequence[Module]) -> tuple[int, int]:
    """Return how many docstrings have the word "what", and how many docstrings there are."""
    texts = [text for _, _, text in _documented(modules)]
    return sum(1 for text in texts if re.search(r"\bwhat\b", text, re.IGNORECASE)), len(texts)


def module_docstrings_with_pronoun(modules: Sequence[Module]) -> list[str]:
    """Return the modules whose docstring begins with What, How or From."""
    return [
        str(module.path)
        for module, node, text in _documented(modules)
        if isinstance(node, ast.Module) and re.match(r"(What|How|From)\b", text)
    ]


def _functions(module: Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef))


def unchecked_calls(modules: Sequence[Module]) -> list[str]:
    """Return the functions that call another one with arguments whose types mypy does not check.

    Such a function takes a ``Callable[..., Result]`` and ``*args`` for it without ``ParamSpec``.
    """
    return [
        f"{module.path}:{node.lineno} {node.name}"
        for module in modules
        for node in _functions(module)
        if node.args.vararg is not None and "Callable[..." in ast.unparse(node.args)
    ]


def rpc_spellings(modules: Sequence[Module]) -> dict[str, list[str]]:
    """Return the places beside its row in which an RPC method is spelt, by the names of the methods.

    A place is a call or cast with the name as text, or a function of an endpoint, which takes a context and a message.
    """
    calls = [(module, node) for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    names = {
        node.args[0].value: None
        for _, node in calls
        if isinstance(node.func, ast.Name) and node.func.id == "Method" and isinstance(node.args[0], ast.Constant)
    }
    places: dict[str, list[str]] = {str(name): [] for name in names}
    for module, node in calls:
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("call", "cast") and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and first.value in names:
                places[str(first.value)].append(f"{module.path}:{node.lineno}")
    for module in modules:
        for function in _functions(module):
            arguments = {argument.arg for argument in function.args.args}
            if function.name in places and "message" in arguments and arguments & {"context", "ctxt"}:
                places[function.name].append(f"{module.path}:{function.lineno}")
    return places


def test_figures() -> dict[str, Any]:
    """Return how often tests use private names and replace attributes, and the modules that start a small Tonnage."""
    private, patches = 0, 0
    harnesses = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                private += not own and _PRIVATE.match(node.attr) is not None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                patches += node.func.attr == "setattr"
        if not path.name.startswith("test_") and _SCHEDULERS.search(text):
            harnesses.append(str(path.relative_to(ROOT)))
    return {"private names used by tests": private, "setattr patches": patches, "harnesses": harnesses}


def static_figures() -> dict[str, Any]:
    """Return the figures that the source files give."""
    modules = product_modules()
    folders = modules_per_folder(modules)
    lines = sum(module.lines for module in modules)
    core_lines = sum(module.lines for module in modules if module.is_core)
    what, docstrings = docstrings_with_what(modules)
    tests = test_figures()
    return {
        "product lines": lines,
        "lines of the core": core_lines,
        "lines of extensions and the driver for CSI": lines - core_lines,
        "imports of an extension by the core": len(imports_of_extensions(modules)),
        "further readers of enabled_extensions": readers_of_enabled_extensions(modules),
        "modules in a folder, at most": max(folders.values()),
        "folders with more than 15 modules": sorted(name for name, number in folders.items() if number > 15),
        "import circle": circle(import_graph(modules)),
        "circles of folders": folder_circles(modules),
        "pairs of folders that import each other": mutual_folders(modules),
        "module names in more than one room": len(shared_names(modules)),
        "dialect words per thousand lines": round(1000 * len(dialect_words(modules)) / lines, 2),
        "docstrings with 'what', percent": round(100 * what / docstrings, 1),
        "module docstrings that begin with What, How, From": len(module_docstrings_with_pronoun(modules)),
        "migrations": len(migrations(modules)),
        "terms in the glossary": len(glossary_terms()),
        "modules": len(_named(modules)),
        "modules without a test file of their own": len(modules_without_tests(modules)),
        "functions that call others with unchecked arguments": len(unchecked_calls(modules)),
        "places in which an RPC method is spelt, at most": 1 + max(map(len, rpc_spellings(modules).values())),
        "private names used by tests": tests["private names used by tests"],
        "setattr patches in tests": tests["setattr patches"],
        "harnesses": len(tests["harnesses"]),
    }


def main() -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(description="Measure the structure of the code.")
    parser.add_argument("--static", action="store_true", help="only the figures of the source files")
    parser.add_argument("--files", action="store_true", help="list the files that each trip passes")
    parser.add_argument("--functions", action="store_true", help="list the functions that each trip passes, by file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    figures = static_figures()
    trips_by_name = {} if args.static else trips()
    if trips_by_name:
        figures.update(trip_figures(trips_by_name))
    if args.json:
        print(json.dumps(figures, indent=1))
    else:
        for name, value in figures.items():
            print(f"{name:60} {value if value != [] else 'none'}")
    if args.files:
        for name, trip in trips_by_name.items():
            print(f"\n{name}:", *trip.files(), sep="\n  ")
    if args.functions:
        for name, trip in trips_by_name.items():
            print(f"\n{name}:", *(f"{path}: {', '.join(names)}" for path, names in trip.functions()), sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
