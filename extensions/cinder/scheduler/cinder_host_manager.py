# SPDX-License-Identifier: Apache-2.0
"""Cinder's host manager with the ledger's figures: Cinder's filters and weighers see the claims in flight."""

import contextlib
import itertools
import logging
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from cinder import context as cinder_context
from cinder.scheduler import host_manager
from cinder.scheduler.weights import OrderedHostWeightHandler

from tonnage.capacity import errors
from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.pool import backend_of
from tonnage.extensions.cinder.pools import filter_requests, pool_explanations, rejections
from tonnage.extensions.cinder.pools.decision_record import DecisionRecord
from tonnage.extensions.cinder.pools.known_pools import KnownPools, Pools
from tonnage.extensions.cinder.pools.native_plugins import NativePlugins
from tonnage.extensions.cinder.scheduler import backend_states
from tonnage.extensions.cinder.scheduler.cinder_ledger import CinderLedger
from tonnage.filters.chain import FilterChain
from tonnage.ledger.inventory.backends import PoolRow
from tonnage.rpc.cinder_explanations import PartialExplanation

LOG = logging.getLogger(__name__)

_DOWN = Rejection("down", "is on a backend that is down, disabled or frozen, or no more reported")
_UNKNOWN = Rejection("no_figures", "has no usable figures yet: no probe was answered, or with figures that are wrong")


class LedgerHostManager(host_manager.HostManager):  # type: ignore[misc]
    """Cinder's host manager. Without :attr:`ledger` it is as Cinder's own."""

    backend_state_cls = backend_states.ReportedBackend

    def __init__(self) -> None:
        self.ledger: CinderLedger | None = None
        self._lock = threading.RLock()
        self._local = threading.local()
        self._pools: KnownPools | None = None
        self._native = NativePlugins()
        #: The number of reports so far; the same number and the services at the last walk through the backends.
        self._reports = 0
        self._walked: tuple[int, Any] | None = None
        #: The revisions of the backends whose pools are known.
        self._revisions: dict[str, int] = {}
        super().__init__()

    def connect(self, ledger: CinderLedger, native: NativePlugins) -> None:
        """Take the figures of pools from a ledger from now on, and judge them by these native plug-ins."""
        with self._lock:
            self.ledger, self._pools, self._revisions = ledger, KnownPools(ledger.pools), {}
            self._native = native

    @property
    def bounded(self) -> bool:
        """Return whether a filter compares capacities."""
        return any(filter_class.__name__ == rejections.CAPACITY for filter_class in self.enabled_filters)

    @property
    def is_native(self) -> bool:
        """Return whether a native plug-in replaces each of Cinder's."""
        return self._native.replace(self.enabled_filters, self._choose_backend_weighers(None))

    @property
    def decision(self) -> DecisionRecord:
        """The decision that this thread has made last."""
        return getattr(self._local, "decision", None) or DecisionRecord()

    def outgrown(self) -> Any:
        """Return the only pool of the decision that this thread has made last, if it lacks nothing but room.

        Return None otherwise.
        """
        refused = [refused for refused in self.decision.refused() if refused.states]
        if len(refused) != 1 or refused[0].failure is not None or refused[0].filter != rejections.CAPACITY:
            return None
        [capacity] = refused
        classes = [filter_class for filter_class in self.enabled_filters if filter_class.__name__ != capacity.filter]
        try:
            passed = self.filter_handler.get_filtered_objects(classes, list(capacity.states), capacity.properties)
        except Exception as error:  # any plug-in of any project
            LOG.warning("A filter failed for a pool without room: %s", error)
            return None
        return passed[0] if len(passed or ()) == 1 else None

    def forget_decision(self) -> None:
        """Forget the decision that this thread has made last, and the pools in it."""
        self._local.decision = None

    @property
    def _decides_by_ledger(self) -> bool:
        """Whether this thread decides by the ledger."""
        return self.ledger is not None and not getattr(self._local, "away", False)

    @contextlib.contextmanager
    def without_ledger(self) -> Iterator[None]:
        """Let this thread decide without the ledger."""
        self._local.away = True
        try:
            yield
        finally:
            self._local.away = False

    @contextlib.contextmanager
    def confined_to(self, target: str | None) -> Iterator[None]:
        """Let this thread see only one pool, or only the pools of one backend."""
        self._local.target = target
        try:
            yield
        finally:
            self._local.target = None

    def has_all_figures(self) -> bool:
        """Return whether a probe has been answered for each pool that was reported.

        Cinder takes reports over only with the first decision, so this takes them over before.
        """
        if self.ledger is None:
            return True
        self._update_backend_state_map(cinder_context.get_admin_context())
        self.ledger.pools.refresh(())
        with self._lock:
            return self._reported().keys() <= self.ledger.pools.rows.keys()

    def backends_up(self, context: Any) -> dict[str, str]:
        """Return the backends that can be probed, with their availability zones."""
        with self._lock:
            self._update_backend_state_map(context)
            return {
                name: str(state.service.get("availability_zone") or "")
                for name, state in self.backend_state_map.items()
            }

    def update_service_capabilities(self, *args: Any, **kwargs: Any) -> None:
        with self._lock:
            self._reports += 1
            super().update_service_capabilities(*args, **kwargs)

    def get_all_backend_states(self, context: Any) -> Collection[Any]:
        self._update_backend_state_map(context)
        target = getattr(self._local, "target", None)
        with self._lock:
            if self._pools is None or not self._decides_by_ledger:
                reported = [pool for name, pool in self._reported().items() if target in (None, name, backend_of(name))]
                self._local.decision = DecisionRecord(len(reported))
                return reported
            self._take_over_reports(self._pools)
            version, pools = self._pools.present()
        if target is not None:
            pools = pools.confined_to(target)
        self._local.decision = DecisionRecord(len(pools), version)
        return pools

    def reported_pools(self) -> dict[str, Any]:
        """Return the pools that Cinder knows, by name."""
        with self._lock:
            return self._reported()

    def _update_backend_state_map(self, context: Any) -> None:
        """Walk through all services and backends if any of them has changed, or has reported."""
        services = backend_states.services()
        with self._lock:
            if self._walked != (self._reports, services):
                reports = self._reports
                super()._update_backend_state_map(context)
                self._walked = reports, services

    def _reported(self) -> dict[str, Any]:
        """Return the pools that Cinder knows, by name."""
        return {pool.backend_id: pool for state in self.backend_state_map.values() for pool in state.pools.values()}

    def _take_over_reports(self, pools: KnownPools) -> None:
        """Show the reports since the last decision to the known pools."""
        revisions = {name: state.revision for name, state in self.backend_state_map.items()}
        if revisions != self._revisions:
            changed = [
                pool.backend_id
                for name, state in self.backend_state_map.items()
                if revisions[name] != self._revisions.get(name)
                for pool in state.pools.values()
            ]
            pools.set_reported(self._reported(), changed)
            self._revisions = revisions

    def get_filtered_backends(
        self, backends: Collection[Any], filter_properties: Any, filter_class_names: Any = None
    ) -> Collection[Any]:
        classes = (
            self.enabled_filters if filter_class_names is None else self._choose_backend_filters(filter_class_names)
        )
        if not isinstance(backends, Pools):
            return self._ask_filters(classes, list(backends), filter_properties)
        chain, cinder_classes = self._native.split(classes)
        pools = self._without_attempted(backends, filter_properties)
        if chain.filters:
            pools = self._judge(chain, pools, filter_properties)
        if not cinder_classes:
            return pools
        return pools.kept(self._ask_filters(cinder_classes, list(pools), filter_properties))

    def get_weighed_backends(
        self, backends: Collection[Any], weight_properties: Any, weigher_class_names: Any = None
    ) -> Sequence[Any]:
        try:
            ranked = self._rank(backends, weight_properties, weigher_class_names)
        except Exception as error:  # any plug-in of any project
            names = ", ".join(cls.__name__ for cls in self._choose_backend_weighers(weigher_class_names))
            return self._refuse_all(names, list(backends), weight_properties, error)
        self.decision.ranked, self.decision.properties = ranked, weight_properties
        return ranked

    def _rank(self, backends: Collection[Any], properties: Any, weigher_class_names: Any) -> Sequence[Any]:
        """Return pools with their weights, best first."""
        if isinstance(backends, Pools) and self._adds_weights:
            classes = self._choose_backend_weighers(weigher_class_names)
            ranked = self._native.rank(backends, classes, properties)
            if ranked is not None:
                return ranked
        weighed: Sequence[Any] = super().get_weighed_backends(list(backends), properties, weigher_class_names)
        return weighed

    def explanation(self, text: str, target: str | None, chosen: str | None, most: int | None) -> PartialExplanation:
        """Return the explanation of the decision that this thread has made last, with at most so many pools.

        ``text`` describes the request, ``target`` is as in :meth:`confined_to`, and ``chosen`` is the chosen pool, if
        any.
        """
        with self._lock:
            reported = self._reported().keys()
        ledger_rows = {} if self.ledger is None else self.ledger.pools.rows
        absent = {
            **dict.fromkeys(ledger_rows.keys() - reported, _DOWN),
            **dict.fromkeys(reported - ledger_rows.keys(), _UNKNOWN),
        }
        decided = pool_explanations.Decided(
            text=text,
            target=target,
            chosen=chosen,
            absent={name: why for name, why in absent.items() if target in (None, name, backend_of(name))},
            bounded=self.bounded,
            weighers=self._choose_backend_weighers(None) if self._adds_weights else (),
        )
        return pool_explanations.explain(self.decision, decided, most)

    @property
    def _adds_weights(self) -> bool:
        """Return whether the total weight of a pool is the sum of its weights."""
        return type(self.weight_handler) is OrderedHostWeightHandler

    def revert_volume_consumed_capacity(self, *args: Any, **kwargs: Any) -> None:
        """Count nothing with a ledger: the claim of the attempt that failed is released there."""
        if not self._decides_by_ledger:
            super().revert_volume_consumed_capacity(*args, **kwargs)

    def _without_attempted(self, pools: Pools, properties: Mapping[str, Any]) -> Pools:
        """Return the pools in which the volume has not failed: Cinder retries some while others are free."""
        attempted = set((properties.get("retry") or {}).get("backends") or ())
        if not attempted:
            return pools
        untried = pools.without(attempted)
        self.decision.add_filter(rejections.ATTEMPTED, pools, untried, properties)
        return untried

    def _judge(self, filters: FilterChain, pools: Pools, properties: Mapping[str, Any]) -> Pools:
        """Return the pools that native filters accept."""
        request = filter_requests.read_request(properties)

        def verdicts() -> Iterator[tuple[str, Sequence[Any]]]:
            masks = pools.columns.accepted_by_each(filters, request).masks
            for native, (before, after) in zip(filters.filters, itertools.pairwise(masks), strict=False):
                yield native.name, list(pools.within(before & ~after))

        self.decision.add(verdicts, properties)
        return pools.within(pools.columns.accepted_by(filters, request))

    def _ask_filters(self, classes: Sequence[type], states: list[Any], properties: Any) -> list[Any]:
        """Return the pools that Cinder's filters accept."""
        for filter_class in classes:
            if not states:
                break
            name = filter_class.__name__
            try:
                passed = self.filter_handler.get_filtered_objects([filter_class], states, properties) or []
            except Exception as error:  # any plug-in of any project
                return self._refuse_all(name, states, properties, error)
            self.decision.add_filter(name, states, passed, properties)
            states = passed
        return states

    def _refuse_all(self, name: str, states: Sequence[Any], properties: Any, failure: Exception) -> list[Any]:
        """Record the failure of a plug-in of Cinder, with which Cinder fails the whole request, and return no pool.

        Raises the failure where the ledger does not decide.
        """
        if not self._decides_by_ledger:
            raise failure
        LOG.error("%s failed, and the request is refused", name, exc_info=failure)
        self.decision.add_failure(name, states, properties, failure)
        return []

    def get_pools(self, context: Any, filters: Any = None) -> list[dict[str, Any]]:
        """Return Cinder's pools, with the figures by which they are chosen and the capacity in flight."""
        with self._lock:
            pools: list[dict[str, Any]] = super().get_pools(context, filters)
        if self.ledger is None:
            return pools
        try:
            self.ledger.pools.refresh_changed()
        except errors.Unavailable as error:
            LOG.warning("Pools are shown with the claims as last known: %s", error)
        shown = [(pool, self.ledger.pools.rows.get(pool["name"])) for pool in pools]
        return [
            pool if row is None else {**pool, "capabilities": _shown(pool["capabilities"], row)} for pool, row in shown
        ]


def _shown(capabilities: Mapping[str, Any], row: PoolRow) -> dict[str, Any]:
    counters = row.counters
    provisioned = row.stats.get("provisioned_capacity_gb")
    shown = {**capabilities, "allocated_capacity_gb": counters.allocated, "in_flight_capacity_gb": counters.in_flight}
    if provisioned is not None:
        shown["provisioned_capacity_gb"] = float(provisioned) + counters.in_flight
    return shown
