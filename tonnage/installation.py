# SPDX-License-Identifier: Apache-2.0
"""The packages of the Python environment that runs Tonnage: plug-ins, and the command that installs missing libraries.

A running process finds a package that was installed after its start.
"""

import importlib
import json
import os
import pathlib
import re
import shlex
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any
from urllib import parse, request

from stevedore import named

_NAME = "tonnage"

#: A requirement in the metadata of a package: the name of the required package, and the extra that it belongs to if any.
_REQUIREMENT = re.compile(r"""(?P<name>[\w.-]+)[^;]*(;.*\bextra\s*==\s*["'](?P<extra>[^"']+))?""")


def load_plugins(namespace: str, name: str) -> list[Any]:
    """Return the objects of the entry points with a name in a namespace, such as ``tonnage.filters``; usually one.

    Raises the errors of their modules.
    """

    def fail(manager: object, point: object, error: BaseException) -> None:
        raise error

    manager: named.NamedExtensionManager[Any] = named.NamedExtensionManager(
        namespace, [name], on_load_failure_callback=fail, on_missing_entrypoints_callback=None
    )
    # stevedore reads the installed packages once in a process.
    return [extension.plugin for extension in manager] or [
        point.load() for point in entry_points(namespace) if point.name == name
    ]


def entry_points(namespace: str) -> Sequence[metadata.EntryPoint]:
    """Read the entry points of a namespace from the installed packages, and return them in the order of their names."""
    importlib.invalidate_caches()
    return sorted(set(metadata.entry_points(group=namespace)))


def missing_library(error: ModuleNotFoundError, extra: str = "") -> str | None:
    """Return a line about a library that is not installed, or too old, with the command that installs it.

    The command installs ``extra``, by default the extra of Tonnage that the library belongs to. Return None for a module
    that belongs to no requirement of Tonnage: its absence is a bug.
    """
    package, _, module = (error.name or "").partition(".")
    extras = extras_with(package)
    if package == _NAME or not extras:
        return None
    problem = f"too old, it has no module {module}" if module else "not installed"
    return (
        f"the library {package} is {problem}; install it with: {install_command(extra or extras[0])} (where another "
        "service has this environment, install Tonnage into a new one instead)"
    )


def extras_with(package: str) -> list[str]:
    """Return the extras of Tonnage with the library whose modules are in an import package, as in ``oslo_policy``.

    The empty extra stands for the requirements that are always installed.
    """
    requirements = [_REQUIREMENT.match(requirement) for requirement in metadata.requires(_NAME) or ()]
    return [
        requirement["extra"] or ""
        for requirement in requirements
        if requirement is not None and _normalized(requirement["name"]) == _normalized(package)
    ]


def _normalized(name: str) -> str:
    """Return the name of a package in the form that indexes compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def install_command(extra: str) -> str:
    """Return the command that installs the libraries of an extra, such as ``postgresql``, where Tonnage is installed.

    The empty extra stands for the libraries that Tonnage always requires. The command works in the present folder: in a
    checkout it names that checkout, elsewhere the package.
    """
    direct_url = metadata.distribution(_NAME).read_text("direct_url.json")
    return pip_command(extra, direct_url, pathlib.Path(sys.executable), pathlib.Path.cwd())


def pip_command(extra: str, direct_url: str | None, python: pathlib.Path, folder: pathlib.Path) -> str:
    """Return the command as :func:`install_command`, for an installation that is described by the arguments.

    ``direct_url`` is the text of its ``direct_url.json``, which pip writes for an installation that comes from a folder
    or a file. ``python`` is its interpreter, and ``folder`` the folder that the command is to work in.
    """
    pip = python.with_name("pip")
    program = [_shortest(pip, folder)] if pip.exists() else [_shortest(python, folder), "-m", "pip"]
    origin = json.loads(direct_url) if direct_url else {}
    url = parse.urlsplit(origin.get("url", ""))
    path = pathlib.Path(request.url2pathname(url.path))
    editable = ["--editable"] if origin.get("dir_info", {}).get("editable") else []
    # A file from which it was installed may be gone, and then the package has to come from an index.
    source = _shortest(path, folder) if url.scheme == "file" and path.exists() else _NAME
    return shlex.join([*program, "install", *editable, f"{source}[{extra}]" if extra else source])


def _shortest(path: pathlib.Path, folder: pathlib.Path) -> str:
    """Return a path relative to the folder if it is below, else as it is. A daemon's folder is often the root."""
    below = path.is_relative_to(folder) and folder != pathlib.Path(folder.anchor)
    return os.path.relpath(path, folder) if below else str(path)
