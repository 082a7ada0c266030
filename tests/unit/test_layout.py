# SPDX-License-Identifier: Apache-2.0
"""The rooms at the top of the repository, setup.cfg, the links in tonnage/ and what gets installed agree."""

import ast
import configparser
import importlib
import importlib.metadata
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import types
import venv
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.servers import base
from tests.servers.base import wait_for
from tonnage.extension import Extension
from tonnage.ledger.db import schema

ROOT = pathlib.Path(__file__).parents[2]

#: Names of modules that stand in more than one room, for the same thing in each.
SHARED_NAMES = {
    "capacity",
    "chain",
    "driver",
    "endpoint",
    "extension",
    "extension_parts",
    "groups",
    "pool",
    "qos_specs",
    "tables",
    "user_messages",
    "volumes",
}

#: Most identifiers of ``words.toml`` that say nothing of storage, in a thousand lines.
DIALECT_WORDS_PER_THOUSAND_LINES = 5

GENERATED = {"__pycache__", "_build", "_version"}

#: The rooms in which each file of tests is that of a module.
MIRRORED = {"agent", "capacity", "drivers", "filters", "ledger", "metrics", "quotas", "rpc", "scheduler", "weighers"}

#: Modules that import Cinder, which the unit tests do without: ``tests/cinder`` has their tests, with a real one.
TESTED_WITH_CINDER = {
    f"extensions/cinder/{module}.py"
    for module in (
        "pools/capacity_rejection",
        "pools/cinder_capacity",
        "pools/decision_record",
        "pools/native_filters",
        "pools/native_plugins",
        "pools/pool_explanations",
        "quota/driver",
        "scheduler/backend_states",
        "scheduler/cinder_driver",
        "scheduler/cinder_host_manager",
        "scheduler/cinder_manager",
        "growth/growth_commands",
        "scheduler/recorded_requests",
        "scheduler/volume_rows",
    )
}


def _setup_cfg() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.optionxform = str  # type: ignore[assignment]  # entry point names are case-sensitive
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def _mapping(text: str) -> dict[str, str]:
    return {key.strip(): value.strip() for key, value in (line.split("=", 1) for line in text.split("\n") if line)}


CFG = _setup_cfg()
PACKAGES = set(CFG["options"]["packages"].split())
PACKAGE_DIR = _mapping(CFG["options"]["package_dir"])
ROOMS = {folder for package, folder in PACKAGE_DIR.items() if package != "tonnage"}
#: Modules of the package itself, which all rooms may import.
MODULES = {
    "coalescer",
    "enabled_extensions",
    "extension",
    "installation",
    "log_records",
    "plugin",
    "plugin_loader",
    "worker",
}
ENTRY_POINTS = {
    (group, name): target
    for group, lines in CFG["options.entry_points"].items()
    for name, target in _mapping(lines).items()
}


#: The contracts of import-linter that hold the floors of a room.
FLOORS = [
    contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    if contract["id"].endswith("-floors")
]
MODULES_OF_THE_ROOM = "its modules"


def _forms(word: str) -> set[str]:
    """Return a noun with its singular or plural, as far as English is regular."""
    return {word, word.removesuffix("s"), f"{word}s", re.sub("ies$", "y", word)}


def _floors_of_contract(contract: dict[str, Any]) -> list[set[str]]:
    """Return the floors of a room from the ground up; the modules at the top of the room are one of them."""
    return [
        {MODULES_OF_THE_ROOM} if " : " in layer else set(layer.split(" | ")) for layer in reversed(contract["layers"])
    ]


def _floors_of_docstring(text: str) -> list[set[str]]:
    floors = " ".join(text.split()).partition("Floors from the ground up: ")[2].partition(".")[0]
    return [set(floor.split(" and ")) for floor in floors.split(", ")]


def _package_of(folder: pathlib.Path) -> str:
    return ".".join(["tonnage", *folder.relative_to(ROOT).parts])


def _folders_with_code(room: str) -> set[pathlib.Path]:
    return {path.parent for path in (ROOT / room).rglob("*.py") if not GENERATED & set(path.parts)}


def _in_git() -> set[str]:
    """The files that git knows and that are there; their paths from the top."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so it is not known what belongs to it")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {name for name in names.split("\0") if name and (ROOT / name).exists()}


def test_each_folder_with_code_is_a_listed_package() -> None:
    found = {_package_of(folder) for room in ROOMS for folder in _folders_with_code(room)}
    assert found | {"tonnage"} == PACKAGES


def test_each_package_has_an_init_module() -> None:
    missing = [
        folder for room in ROOMS for folder in _folders_with_code(room) if not (folder / "__init__.py").is_file()
    ]
    assert missing == []


def test_each_top_level_package_is_a_room() -> None:
    not_installed = {"tests"}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages - not_installed == ROOMS | {"tonnage"}
    assert {f"tonnage.{room}": room for room in ROOMS} | {"tonnage": "tonnage"} == PACKAGE_DIR


def test_the_links_lead_type_checkers_to_each_room() -> None:
    """Without them mypy checks one file and says Success."""
    if not (ROOT / ".git").exists():
        pytest.skip("an unpacked archive has no links")
    links = {path.name: path.readlink() for path in (ROOT / "tonnage").iterdir() if path.is_symlink()}
    assert links == {room: pathlib.Path("..", room) for room in ROOMS}


def test_tools_know_each_room() -> None:
    """Lists of rooms that cannot be derived: coverage's folders, ruff's banned names, import-linter's layers."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    layers = tools["importlinter"]["contracts"][0]["layers"]
    assert set(tools["coverage"]["run"]["source_dirs"]) == ROOMS
    assert {room for layer in layers for room in layer.split(" | ")} == ROOMS | MODULES
    assert set(tools["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]) >= ROOMS


@pytest.fixture(scope="module")
def structure() -> Iterator[types.ModuleType]:
    """The tool that measures the structure of the code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        yield importlib.import_module("measure_structure")


def test_no_folder_has_more_than_fifteen_modules(structure: types.ModuleType) -> None:
    folders = structure.modules_per_folder(structure.product_modules())
    assert {name: number for name, number in folders.items() if number > 15} == {}


def test_no_modules_import_each_other_in_a_circle(structure: types.ModuleType) -> None:
    assert structure.circle(structure.import_graph(structure.product_modules())) == []


def test_no_folders_of_a_room_import_each_other_in_a_circle(structure: types.ModuleType) -> None:
    assert structure.folder_circles(structure.product_modules()) == []


def test_no_two_folders_of_a_room_import_each_other(structure: types.ModuleType) -> None:
    assert structure.mutual_folders(structure.product_modules()) == []


def test_the_core_imports_no_extension(structure: types.ModuleType) -> None:
    assert structure.imports_of_extensions(structure.product_modules()) == []


def test_the_core_does_not_ask_which_extensions_are_enabled(structure: types.ModuleType) -> None:
    """It goes through those that are, by ``tonnage.enabled_extensions``."""
    assert structure.readers_of_enabled_extensions(structure.product_modules()) == []


def test_few_names_of_modules_stand_in_more_than_one_room(structure: types.ModuleType) -> None:
    """Each of these means the same thing in its rooms."""
    shared = structure.shared_names(structure.product_modules())
    assert set(shared) <= SHARED_NAMES, "a name means one thing: take another one, or the name of the room above"


def test_an_rpc_method_is_spelt_in_its_row_alone(structure: types.ModuleType) -> None:
    """Clients and endpoints take the row, so go-to-definition leads from both to the contract."""
    spellings = structure.rpc_spellings(structure.product_modules())
    assert {"hello", "create_group", "fit_nodes", "run"} <= spellings.keys()
    assert {name: places for name, places in spellings.items() if places} == {}


def test_functions_that_run_others_keep_the_types_of_their_arguments(structure: types.ModuleType) -> None:
    """Transactions and handlers: mypy checks each call, and go-to-definition arrives at the function."""
    assert structure.unchecked_calls(structure.product_modules()) == []


def test_no_docstring_of_a_module_begins_with_a_pronoun(structure: types.ModuleType) -> None:
    assert structure.module_docstrings_with_pronoun(structure.product_modules()) == []


def test_names_of_modules_consist_of_listed_words(structure: types.ModuleType) -> None:
    listed = set(structure.word_lists()["modules"].split())
    words = structure.words_of_module_names(structure.product_modules())
    assert {word for word in words if not _forms(word) & listed} == set(), "add the word to tests/unit/words.toml"


def test_few_identifiers_say_nothing_of_storage(structure: types.ModuleType) -> None:
    modules = structure.product_modules()
    words, lines = structure.dialect_words(modules), sum(module.lines for module in modules)
    assert 1000 * len(words) / lines <= DIALECT_WORDS_PER_THOUSAND_LINES, words


@pytest.mark.parametrize("contract", FLOORS, ids=lambda contract: contract["id"])
def test_the_docstring_of_a_room_names_its_floors_from_the_ground_up(contract: dict[str, Any]) -> None:
    [package] = contract["containers"]
    folder = ROOT / package.removeprefix("tonnage.").replace(".", "/")
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert _floors_of_docstring(docstring) == _floors_of_contract(contract)


def test_each_room_with_folders_has_a_contract_of_its_floors() -> None:
    rooms = {ROOT / room for room in ROOMS - {"extensions", "etc"}} | set((ROOT / "extensions").glob("[a-z]*/"))
    with_folders = {
        _package_of(room)
        for room in rooms
        for folder in room.iterdir()
        if (folder / "__init__.py").is_file() and folder.name != "migrations"
    }
    assert {package for contract in FLOORS for package in contract["containers"]} == with_folders


def test_the_glossary_has_the_terms_that_readers_need_and_no_more(structure: types.ModuleType) -> None:
    assert 60 <= len(structure.glossary_terms()) <= 80


def test_the_readme_names_each_room_and_each_extension() -> None:
    text = (ROOT / "README.rst").read_text(encoding="utf-8")
    names = set(re.findall(r"^``([a-z]+(?:/[a-z]+)?)/``  ", text, re.MULTILINE))
    extensions = {f"extensions/{path.parent.name}" for path in ROOT.glob("extensions/*/extension.py")}
    assert names == ROOMS - {"extensions", "etc"} | extensions


def test_the_picture_of_the_parts_is_up_to_date() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        picture = importlib.import_module("parts_picture")
    assert picture.PICTURE.read_text(encoding="utf-8") == picture.svg(), "run tools/parts_picture.py"


def test_the_pages_for_contributors_name_each_folder() -> None:
    text = (ROOT / "CONTRIBUTING.rst").read_text(encoding="utf-8")
    folders = {path.relative_to(ROOT) for room in ROOMS for path in _folders_with_code(room)}
    assert {str(folder) for folder in folders if f"``{folder}``" not in text and folder.name != "migrations"} == set()


def _tests_of(module: pathlib.PurePath) -> set[str]:
    """The files with tests of a module, ``test_<module>`` and ``test_<module>_<aspect>``; their paths from the top."""
    folder = ROOT / "tests" / "unit" / module.parent
    files = (folder / f"test_{module.stem}.py", *folder.glob(f"test_{module.stem}_*.py"))
    return {str(file.relative_to(ROOT)) for file in files if file.is_file()}


def test_each_module_has_its_tests_where_the_mirror_has_them(structure: types.ModuleType) -> None:
    missing = set(structure.modules_without_tests(structure.product_modules())) - TESTED_WITH_CINDER
    assert missing == set(), "write tests/unit/<room>/<folder>/test_<module>.py"


#: Prints the modules among its arguments that can be imported where Cinder cannot.
_WITHOUT_CINDER = """
import importlib, sys

sys.modules["cinder"] = None
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError:
        continue
    print(name)
"""


def test_only_modules_that_import_cinder_have_their_tests_elsewhere() -> None:
    names = [f"tonnage.{name.removesuffix('.py').replace('/', '.')}" for name in sorted(TESTED_WITH_CINDER)]
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_CINDER, *names], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.split() == [], "these need no Cinder: write tests/unit/<room>/<folder>/test_<module>.py"


def test_each_file_of_tests_is_that_of_a_module() -> None:
    names = {pathlib.PurePath(name) for name in _in_git() if name.endswith(".py") and name.split("/")[0] in MIRRORED}
    tests = set().union(*(_tests_of(module) for module in names))
    files = {
        str(file.relative_to(ROOT)) for room in MIRRORED for file in (ROOT / "tests" / "unit" / room).rglob("test_*.py")
    }
    assert files - tests == set(), "tests of no module"


def test_each_folder_of_tests_is_a_package() -> None:
    """In importlib mode pytest would otherwise take ``tests/unit/filters`` for the module ``filters``."""
    folders = {path.parent for path in (ROOT / "tests").rglob("*.py") if not GENERATED & set(path.parts)}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_bare_room_name_does_not_import_from_the_checkout(room: str) -> None:
    """A second copy of each class would make isinstance() and ``except`` fail without a word."""
    if os.getcwd() in sys.path or str(ROOT) in sys.path:
        pytest.skip("run as `python -m pytest`, which puts the checkout on the path")
    spec = importlib.util.find_spec(room)
    assert spec is None or not str(spec.origin).startswith(str(ROOT))


#: The groups whose classes only another program imports, in its own environment.
ELSEWHERE = {"watcher_strategies"}


@pytest.mark.parametrize(
    ("group", "name"),
    sorted(key for key in ENTRY_POINTS if key[0] not in ELSEWHERE),
    ids=lambda value: str(value),
)
def test_entry_point_leads_somewhere(group: str, name: str) -> None:
    entry_point = importlib.metadata.EntryPoint(name, ENTRY_POINTS[group, name], group)
    loaded = entry_point.load()
    assert callable(loaded) or isinstance(loaded, Extension)


def test_what_is_installed_has_the_entry_points_of_setup_cfg() -> None:
    installed = {
        (entry_point.group, entry_point.name): entry_point.value
        for entry_point in importlib.metadata.distribution("tonnage").entry_points
    }
    assert installed == ENTRY_POINTS, "setup.cfg changed since the installation: run `make install`"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the source archive and the wheel that was built from it, both made of what git knows."""
    source = tmp_path_factory.mktemp("source")
    for name in _in_git():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    output = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(output), str(source)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return output


def test_the_wheel_holds_each_file_of_the_rooms_and_one_import_package(built: pathlib.Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    in_rooms = {f"tonnage/{name}" for name in _in_git() if name.partition("/")[0] in ROOMS}
    assert names == in_rooms | {"tonnage/__init__.py", "tonnage/py.typed", *(f"tonnage/{name}.py" for name in MODULES)}


def test_the_wheel_has_nothing_that_a_checker_objects_to(built: pathlib.Path) -> None:
    [wheel] = built.glob("*.whl")
    # W002: rooms have the same __init__.py, which holds the licence and nothing else.
    command = [sys.executable, "-m", "check_wheel_contents", "--no-config", "--ignore", "W002", "--toplevel", "tonnage"]
    done = subprocess.run([*command, str(wheel)], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_source_archive_is_complete(built: pathlib.Path) -> None:
    """Tests, documentation and sample files are in it; the links are not, which is why nothing may need them."""
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    links = {f"tonnage/{room}" for room in ROOMS}
    assert {name for name in _in_git() - links if not name.startswith(".")} - names == set()


@pytest.fixture(scope="module")
def programs(built: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of the programs of a new environment with the wheel; the libraries are those of this one."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment)
    folder = environment / "bin"
    install = [sys.executable, "-m", "pip", "--python", str(folder / "python"), "install", "--quiet", "--no-index"]
    [wheel] = built.glob("*.whl")
    subprocess.run([*install, "--no-deps", str(wheel)], check=True)
    command = [folder / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    # Python adds this folder to the path, and ignores in it the links of an editable installation.
    pathlib.Path(packages, "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


def test_the_installed_wheel_runs_outside_of_a_checkout_as_its_description_says(
    programs: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    def arguments(line: str) -> list[str]:
        name, *others = line.split()
        return [str(programs / name), *others]

    port = base.free_port()
    environment = {**os.environ, "TONNAGE_URL": f"http://127.0.0.1:{port}"}

    def run(line: str) -> str:
        done = subprocess.run(
            arguments(line), cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=False, env=environment
        )
        assert done.returncode == 0, (line, done.stdout)
        return done.stdout

    text = (ROOT / "DESCRIPTION.rst").read_text(encoding="utf-8")
    sample, sync, standalone, pools, create = re.findall(r"^  \$ (tonnage.*)$", text, re.MULTILINE)
    written = run(sample).split()
    files = {"grafana/tonnage.json", "prometheus/tonnage.rules.yml", "several-machines/control.conf"}
    assert {f"tonnage-config/{name}" for name in files} <= set(written)
    assert not {name for name in written if re.search(r"/systemd/[^/]*\.d/", name)}, "a copied folder opens no unit"
    conf = tmp_path / "tonnage-config" / "tonnage-standalone.conf"
    conf.write_text(conf.read_text(encoding="utf-8").replace("listen_port = 8776", f"listen_port = {port}"))
    assert f"is at revision {schema.HEAD} " in run(sync)
    log = tmp_path / "standalone.log"
    with log.open("wb") as output, subprocess.Popen(arguments(standalone), cwd=tmp_path, stderr=output) as process:
        try:
            wait_for(lambda: process.poll() is not None or _answers(port), "Tonnage is ready")
            assert process.poll() is None, log.read_text(encoding="utf-8")
            wait_for(lambda: "localhost@both#both" in run(pools), "the backends have reported")
            assert " first is available in localhost@both#both, the best of 3 candidates\n" in run(create)
        finally:
            process.terminate()
    assert process.returncode == 0


def _answers(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/healthcheck", timeout=30).status_code == 200
    except requests.ConnectionError:
        return False


def test_the_description_in_the_wheel_has_no_links_into_a_checkout(built: pathlib.Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = archive.read(name).decode()
    description = (ROOT / "DESCRIPTION.rst").read_text(encoding="utf-8")
    assert metadata.replace("\r\n", "\n").endswith(description)
    targets = re.findall(r"<([^<>]+)>`_|^\.\. _[^:]+: (\S+)", description, re.MULTILINE)
    assert [target for pair in targets for target in pair if target and not target.startswith("https://")] == []
