# SPDX-License-Identifier: Apache-2.0
"""The libraries that Tonnage requires, by its metadata, and their versions beside Cinder, by a table."""

import pathlib
import re
from collections.abc import Iterable, Mapping
from importlib import metadata

from packaging.requirements import Requirement

_TABLE = pathlib.Path(__file__).with_name("libraries_of_cinder.txt")

#: The heading of the table's second part.
_ADDED = "added"


def normalized(name: str) -> str:
    """Return the name of a package in the form that indexes compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(extra: str = "") -> list[Requirement]:
    """Return the requirements of Tonnage that belong to an extra, by default those that belong to none."""
    parsed = [Requirement(text) for text in metadata.requires("tonnage") or ()]
    of_extras = {id(item) for item in parsed if item.marker is not None and not item.marker.evaluate({"extra": ""})}
    if not extra:
        return [item for item in parsed if id(item) not in of_extras]
    return [item for item in parsed if id(item) in of_extras and item.marker and item.marker.evaluate({"extra": extra})]


def closure(extras: Iterable[str] = ()) -> set[str]:
    """Return the normalized names of all packages that an installation of Tonnage with these extras has."""
    packages: set[tuple[str, frozenset[str]]] = set()
    waiting = [("tonnage", frozenset(extras))]
    while waiting:
        package = waiting.pop()
        if package in packages:
            continue
        packages.add(package)
        name, chosen = package
        try:
            texts = metadata.requires(name) or ()
        except metadata.PackageNotFoundError:  # a requirement for other systems or versions of Python
            continue
        for requirement in map(Requirement, texts):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in chosen or {""}):
                waiting.append((normalized(requirement.name), frozenset(requirement.extras)))
    return {name for name, _ in packages}


def import_packages_beyond(packages: set[str]) -> set[str]:
    """Return the import packages of all installed packages but these, which have normalized names."""
    return {
        name
        for name, owners in metadata.packages_distributions().items()
        if packages.isdisjoint(map(normalized, owners))
    }


def versions_of_freeze(text: str) -> dict[str, str]:
    """Return the versions of packages by normalized names from the output of ``pip freeze``.

    Packages that are editable or came from a file have no version there.
    """
    pairs = (line.partition("==") for line in text.splitlines() if "==" in line and not line.startswith("#"))
    return {normalized(name): version for name, _, version in pairs}


def versions_of_cinder() -> tuple[Mapping[str, Mapping[int, str]], Mapping[str, Mapping[int, str]]]:
    """Return the table: versions by library and release of Cinder, of common libraries and of those that Tonnage adds.

    A release has no entry for a library that its upper constraints do not name.
    """
    shared: dict[str, Mapping[int, str]] = {}
    added: dict[str, Mapping[int, str]] = {}
    part, releases = shared, [0]
    for line in _TABLE.read_text(encoding="utf-8").splitlines():
        name, *cells = line.partition("#")[0].split() or [""]
        if not name:
            continue
        if cells[0].isdecimal():
            part, releases = (added if name == _ADDED else shared), [int(cell) for cell in cells]
        else:
            part[name] = {number: cell for number, cell in zip(releases, cells, strict=True) if cell != "-"}
    return shared, added
