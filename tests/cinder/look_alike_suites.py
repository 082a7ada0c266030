# SPDX-License-Identifier: Apache-2.0
"""Cinder's own tests of its filter scheduler, filters and weighers, with Tonnage's classes in the place of Cinder's.

A module for Cinder's Python, see ``own_suite.py``.
"""

import copy
import importlib
from types import SimpleNamespace
from typing import Any

from cinder.scheduler import host_manager
from cinder.tests.unit.scheduler import fakes

from tonnage.extensions.cinder.pools.look_alikes import PoolLookAlike, look_alike
from tonnage.extensions.cinder.pools.native_plugins import NativePlugins
from tonnage.extensions.cinder.scheduler import (
    backend_states,
    cinder_driver,
    cinder_host_manager,
    ledger_options,
    reported_figures,
)
from tonnage.ledger.inventory.backends import PoolRow
from tonnage.ledger.locks.pool_counters import Counters

try:
    from cinder.tests.unit.scheduler import helpers
except ImportError:  # in Cinder 25 its fake host manager has the classes that are installed
    helpers = None

SUITES = {
    "filter_scheduler": ["test_filter_scheduler"],
    "host_filters": ["test_host_filters"],
    "weighers": [
        *("test_allocated_capacity_weigher", "test_capacity_weigher", "test_chance_weigher", "test_goodness_weigher"),
        *("test_stochastic_weight_handler", "test_volume_number_weigher", "test_weights"),
    ],
}


def row_of(state: Any) -> PoolRow:
    """Return the row that the ledger has of a pool after a report."""
    figures = {key: getattr(state, key) for key in reported_figures.FIGURES}
    return PoolRow(
        id=1,
        backend_id=1,
        name=state.backend_id,
        generation=0,
        counters=Counters(allocated=state.allocated_capacity_gb),
        ratio=state.max_over_subscription_ratio,
        thin_limit_gb=None,
        stats=figures,
        figures_age=None,
    )


def fake_look_alike(host: str, attributes: dict[str, Any]) -> PoolLookAlike:
    """Return a look-alike in place of Cinder's ``FakeBackendState``."""
    state = host_manager.BackendState(host, None)
    for key, value in {"pool_name": host, **attributes}.items():
        setattr(state, key, value)
    found = look_alike(state, row_of(state))
    for key, value in attributes.items():
        if not hasattr(found, key):
            setattr(found, key, value)
    return found


def show_look_alikes(manager: Any) -> None:
    """Let the fake host manager of Cinder show look-alikes of its pools. It calls itself by its name, so it stays."""
    states = manager.get_all_backend_states
    manager.get_all_backend_states = lambda self, context: [
        look_alike(state, row_of(state)) for state in states(self, context)
    ]


class LedgerPools:
    """The pools of a ledger that has had the reports of the fake host manager."""

    def __init__(self, hosts: Any) -> None:
        self._hosts = hosts
        self._is_refused = False

    @property
    def rows(self) -> dict[str, PoolRow]:
        backends = self._hosts.backend_state_map.values()
        return {pool.backend_id: row_of(pool) for backend in backends for pool in backend.pools.values()}

    def changes(self, version: int) -> tuple[int, set[str] | None]:
        """Show all pools to each decision, and let each refusal be final."""
        is_refused, self._is_refused = self._is_refused, False
        return version, set() if is_refused else None

    def refresh(self, pool_ids: Any = None) -> None:
        self._is_refused = True

    def note_claim(self, *claim: int) -> None:
        """Count nothing."""


class FakeLedgerHostManager(cinder_host_manager.LedgerHostManager):  # type: ignore[misc]
    """Tonnage's host manager with the reports of Cinder's fake one."""

    native = NativePlugins()

    def __init__(self, multibackend_with_pools: bool = False) -> None:
        super().__init__()
        states = fakes.SERVICE_STATES_WITH_POOLS if multibackend_with_pools else fakes.SERVICE_STATES
        self.service_states = copy.deepcopy(states)
        if helpers is not None:
            self.filter_classes, self.weight_classes = helpers.ALL_FILTER_CLASSES[:], helpers.ALL_WEIGHER_CLASSES[:]
            self.enabled_filters = self._choose_backend_filters(helpers.DEFAULT_SCHEDULER_FILTERS[:])
        ledger: Any = SimpleNamespace(pools=LedgerPools(self), refuse=lambda *refusal: None)
        self.connect(ledger, self.native)


class FakeLedgerScheduler(cinder_driver.LedgerScheduler):
    """Tonnage's scheduler in place of Cinder's fake one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.host_manager = FakeLedgerHostManager()
        self.ledger = self.host_manager.ledger


def modules(suite: str, scheduler: str) -> list[Any]:
    """Return the modules with the tests of a suite; ``scheduler`` is ``cinder``, ``tonnage`` or ``native``."""
    found = [importlib.import_module(f"cinder.tests.unit.scheduler.{name}") for name in SUITES[suite]]
    if scheduler == "native":
        FakeLedgerHostManager.native = NativePlugins(ledger_options.NATIVE_FILTERS, ledger_options.NATIVE_WEIGHERS)
    if scheduler != "cinder" and suite == "filter_scheduler":
        fakes.FakeFilterScheduler, fakes.FakeHostManager = FakeLedgerScheduler, FakeLedgerHostManager
        host_manager.HostManager = FakeLedgerHostManager  # some tests replace its methods
        backend_states.services = object  # the tests change the services
        found[0].FilterSchedulerTestCase.driver_cls = FakeLedgerScheduler
    elif scheduler != "cinder":
        fakes.FakeBackendState = fake_look_alike
        show_look_alikes(fakes.FakeHostManager)
    return found
