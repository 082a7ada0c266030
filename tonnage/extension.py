# SPDX-License-Identifier: Apache-2.0
"""The declaration of an extension: an optional part of Tonnage, which the core finds by its entry point.

An extension is one folder with everything of its own. Its package declares one :class:`Extension` under the entry point
group ``tonnage.extensions``. The declaration names the parts as strings ``module:object``, and a process imports only
those that it runs: a scheduler imports no REST resource, and no process imports anything of an extension that is not
enabled.
"""

import importlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar

from tonnage import installation

LOG = logging.getLogger(__name__)

NAMESPACE = "tonnage.extensions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The parts of an extension, each as ``module:object``; an empty name stands for a part that it does not have.

    Example of an extension that records the lowest free capacity of each pool in a table::

        EXTENSION = Extension(
            summary="the low-water marks of pools",
            options="tonnage_low_water.options:list_opts",
            tables="tonnage_low_water.tables",
            scheduler="tonnage_low_water.scheduler_parts:build",
            has_transaction_hooks=True,
        )
    """

    #: What the extension is for: a phrase without a full stop, for the list of extensions.
    summary: str
    #: ``() -> [(section, options)]``: the options of oslo.config, which every process registers.
    options: str = ""
    #: ``(conf) -> None``: raises :class:`~tonnage.capacity.errors.ConfigurationError` for options that cannot be used.
    #: Schedulers and the standalone call it before they start anything.
    check: str = ""
    #: The module with the tables, models of SQLAlchemy with the base class of the ledger's own. The folder ``migrations``
    #: beside it has their Alembic migrations: files ``v0001_*.py``, with revisions such as ``low_water_0001``.
    tables: str = ""
    #: ``(conf, SchedulerContext) -> SchedulerParts``, see :mod:`tonnage.scheduler.extension_parts`.
    scheduler: str = ""
    #: ``(conf, ApiContext) -> ApiParts``, see :mod:`tonnage.api.extension_parts`.
    api: str = ""
    #: ``(conf, database) -> Server | None``: a further listener of the processes that serve the API.
    listener: str = ""
    #: ``() -> [policy.DocumentedRuleDefault]``: the policy rules of the routes, see :mod:`tonnage.api.auth.policies`.
    policies: str = ""
    #: ``(max_pools) -> LedgerSeries``: series of the page ``/metrics/ledger``, see
    #: :mod:`tonnage.api.monitoring.ledger_page`.
    metrics: str = ""
    #: ``(conf, database, settings) -> settings`` of quotas, see :mod:`tonnage.quotas.usage_sources`, by the value of the
    #: option ``[quota] usage_source`` that selects it.
    usage_sources: Mapping[str, str] = field(default_factory=dict)
    #: Commands of ``tonnage``, by their names.
    commands: Mapping[str, str] = field(default_factory=dict)
    #: Commands of ``tonnage-manage``, by their names, such as ``db online_data_migrations``.
    manage_commands: Mapping[str, str] = field(default_factory=dict)
    #: The path of its web page on the address of the API, which the standalone shows when it is ready.
    web_page: str = ""
    #: Whether it adds statements to transactions of the core. All schedulers must enable the same extensions of this sort.
    has_transaction_hooks: bool = False


def load(reference: str) -> Any:
    """Import a module, and return the object that ``module:object`` names; of a name without ``:`` the module."""
    module, _, name = reference.partition(":")
    imported = importlib.import_module(module)
    return getattr(imported, name) if name else imported


def installed() -> dict[str, Extension]:
    """Return all installed extensions by their names. Raises the errors of their modules."""
    return {point.name: point.load() for point in installation.entry_points(NAMESPACE)}


def names_in_this_package() -> list[str]:
    """Return the names of the extensions that belong to the package of the core, not to others that are installed."""
    points = installation.entry_points(NAMESPACE)
    return sorted({point.name for point in points if point.dist is not None and point.dist.name == "tonnage"})


class Hook:
    """The base of objects of an extension that the core calls. ``extension`` is its name, which errors show."""

    extension: str = ""

    #: The note that an exception of a hook gets.
    NOTE: ClassVar[str] = "raised by the extension '{}', which the option enabled_extensions names"


class attributed_to:  # noqa: N801  -- reads as a phrase in a with statement
    """A context in which exceptions get a note with the extension of the hook that is called."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and self._hook.extension:
            error.add_note(Hook.NOTE.format(self._hook.extension))


class failures_logged:  # noqa: N801  -- reads as a phrase in a with statement
    """A context in which an exception of a hook is logged and goes no further: the transaction is committed."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        LOG.error("A hook of the extension '%s' failed after a commit", self._hook.extension, exc_info=error)
        return True
