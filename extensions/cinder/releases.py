# SPDX-License-Identifier: Apache-2.0
"""The releases of Cinder in which Tonnage runs, and all that differs between them.

The import of this module imports no library. Up to 28, Cinder's services run on eventlet, which has to patch Python
before the libraries of OpenStack are imported.
"""

import importlib
import importlib.util
import os
import sys
from importlib import metadata
from types import ModuleType

from tonnage.capacity import errors

#: The names of the releases of OpenStack, by the first number of Cinder's version.
_NAMES = {25: "2024.2", 26: "2025.1", 27: "2025.2", 28: "2026.1", 29: "2026.2"}

_FIRST, _LAST = min(_NAMES), max(_NAMES)

#: Set to a true value, it lets Cinder's services run on threads, from 29 on. Cinder reads it when it is imported.
_THREADS = "OS_CINDER_DISABLE_EVENTLET_PATCHING"

#: The releases in words.
TEXT = f"Cinder {_FIRST} to {_LAST} ({_NAMES[_FIRST]} to {_NAMES[_LAST]})"


def installed() -> str | None:
    """Return the version of the installed Cinder, None if there is none."""
    try:
        return metadata.version("cinder")
    except metadata.PackageNotFoundError:
        return None


def check(version: str) -> str | None:
    """Return a warning about a version of Cinder that is later than those that Tonnage was tried with.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an earlier one. A later one may decide: the
    limits of pools are those of the ledger in any release, and a cloud that is upgraded keeps its schedulers.
    """
    number = int(version.partition(".")[0])
    if number < _FIRST:
        raise errors.ConfigurationError(
            f"Cinder {version} is too old: Tonnage runs in {TEXT}. Until the cloud is upgraded, tonnage-cinder-shadow "
            "watches its schedulers from an environment of its own"
        )
    return None if number <= _LAST else f"Cinder {version} is later than those that Tonnage was tried with: {TEXT}"


def import_program() -> ModuleType:
    """Import the module with ``main()`` of ``cinder-scheduler``, on threads if the release allows it.

    Up to 28 this patches Python for eventlet, so no library of OpenStack may be imported before.
    """
    os.environ.setdefault(_THREADS, "1")
    return importlib.import_module("cinder.cmd.scheduler")


def runs_on_eventlet() -> bool:
    """Return whether eventlet has patched this process: its threads take turns in one thread of the system."""
    patcher = sys.modules.get("eventlet.patcher")
    return patcher is not None and bool(patcher.is_monkey_patched("thread"))


def import_arithmetic() -> ModuleType:
    """Import the module with Cinder's arithmetic of capacities."""
    return _import_first("cinder.scheduler.sched_utils", "cinder.utils")


def import_database() -> tuple[ModuleType, ModuleType]:
    """Import the module with Cinder's engine, and the module with its tables."""
    tables = _import_first("cinder.db.models", "cinder.db.sqlalchemy.models")
    package = tables.__name__.rpartition(".")[0]
    return importlib.import_module(f"{package}.api"), tables


def _import_first(*names: str) -> ModuleType:
    """Import the first of these modules that exists, by the names that it has in releases, the latest first."""
    name = next((name for name in names if importlib.util.find_spec(name) is not None), names[-1])
    return importlib.import_module(name)
