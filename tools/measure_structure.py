#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how the code is structured and prints the figures as a table.

The static figures come from the source files: modules per folder, import circles, names of modules, docstrings,
constructors, tests. ``tools/request_trips.py`` counts the files and functions that requests pass.

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

#: Most arguments of a constructor, ``self`` not counted.
_MOST_ARGUMENTS = 7

#: A private name. The methods of named tuples are public.
_PRIVATE = re.compile(r"_(?!_|asdict$|fields$|make$|replace$)")

_SCHEDULERS = re.compile(r"\b(SchedulerManager|SchedulerService)\(|\"tonnage-(standalone|scheduler)\"")


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
        return ".".join(["tonnage", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def rooms() -> list[str]:
    """Return the folders at the top of the repository that setup.cfg maps into the package ``tonnage``."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    pairs = [line.split("=", 1) for line in parser["options"]["package_dir"].split("\n") if line]
    return sorted({folder.strip() for _, folder in pairs} - {"tonnage"})


@functools.cache
def product_modules() -> Sequence[Module]:
    """Return all modules of all rooms, without generated code."""
    return tuple(
        Module(path.relative_to(ROOT), ast.parse(text), text.count("\n"))
        for room in rooms()
        for path in sorted((ROOT / room).rglob("*.py"))
        if not path.name.endswith("_pb2.py")
        for text in [path.read_text(encoding="utf-8")]
    )


def modules_per_folder(modules: Sequence[Module]) -> dict[str, int]:
    """Return the number of modules in each folder. Database migrations and ``__init__`` modules do not count."""
    counted = [each.path for each in modules if each.path.stem != "__init__" and "versions" not in each.path.parts]
    return dict(collections.Counter(str(path.parent) for path in counted))


def shared_names(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Return the names of modules that stand in more than one room, with these rooms."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for each in modules:
        if each.path.stem not in _CONVENTIONAL:
            found[each.path.stem].add(each.room)
    return {stem: where for stem, where in found.items() if len(where) > 1}


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
    names = {each.name for each in modules}
    graph: dict[str, set[str]] = {}
    for each in modules:
        found = {
            f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in names else str(node.module)
            for node in _imports(each.tree)
            for alias in node.names
        }
        graph[each.name] = (found & names) - {each.name}
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
    parts = module.split(".")
    return ".".join(parts[1:3] if parts[1] == "extensions" else parts[1:2])


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


def arrows_up(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the imports that lead from a lower room to a higher one, by the layers of import-linter."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    layers = tools["importlinter"]["contracts"][0]["layers"]
    floor = {room: number for number, layer in enumerate(reversed(layers)) for room in layer.split(" | ")}

    def height(module: str) -> int:
        return floor.get(module.split(".")[1] if "." in module else "", -1)

    return [f"{one} -> {other}" for one, others in graph.items() for other in others if height(one) < height(other)]


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


def long_constructors(modules: Sequence[Module]) -> list[str]:
    """Return the constructors that take more than seven arguments."""
    found = []
    for module in modules:
        for node in _functions(module):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if node.name == "__init__" and len(arguments) - 1 > _MOST_ARGUMENTS:
                found.append(f"{module.path}:{node.lineno}")
    return found


def callable_parameters(modules: Sequence[Module]) -> list[str]:
    """Return the parameters of constructors that are annotated as ``Callable``. Clocks do not count."""
    return [
        f"{module.path}:{node.lineno} {argument.arg}"
        for module in modules
        for node in _functions(module)
        if node.name == "__init__"
        for argument in [*node.args.args, *node.args.kwonlyargs]
        if argument.annotation is not None
        and "Callable" in ast.unparse(argument.annotation)
        and argument.arg != "clock"
    ]


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
    graph = import_graph(modules)
    folders = modules_per_folder(modules)
    what, docstrings = docstrings_with_what(modules)
    tests = test_figures()
    return {
        "product lines": sum(each.lines for each in modules),
        "modules in a folder, at most": max(folders.values()),
        "folders with more than 15 modules": sorted(name for name, number in folders.items() if number > 15),
        "import circle": circle(graph),
        "circles of folders": folder_circles(modules),
        "arrows up": arrows_up(graph),
        "module names in more than one room": len(shared_names(modules)),
        "docstrings with 'what', percent": round(100 * what / docstrings, 1),
        "module docstrings that begin with What, How, From": len(module_docstrings_with_pronoun(modules)),
        "constructors with 8 or more arguments": len(long_constructors(modules)),
        "constructor parameters that are callables": len(callable_parameters(modules)),
        "functions that call others with unchecked arguments": len(unchecked_calls(modules)),
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
    found = {} if args.static else trips()
    if found:
        figures.update(trip_figures(found))
    if args.json:
        print(json.dumps(figures, indent=1))
    else:
        for name, value in figures.items():
            print(f"{name:60} {value if value != [] else 'none'}")
    if args.files:
        for name, trip in found.items():
            print(f"\n{name}:", *trip.files(), sep="\n  ")
    if args.functions:
        for name, trip in found.items():
            print(f"\n{name}:", *(f"{path}: {', '.join(each)}" for path, each in trip.functions()), sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
