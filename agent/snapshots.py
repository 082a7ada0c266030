# SPDX-License-Identifier: Apache-2.0
"""Reports and listings of a backend's storage, each with its place among the operations of the epoch."""

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sized
from typing import Any, Protocol

from tonnage.agent import audit_snapshot
from tonnage.agent.backoff import FailureLog
from tonnage.agent.operations import Epoch, Operations
from tonnage.capacity import errors, plugin_errors
from tonnage.capacity.pools.pool import CLONE_SUPPORT
from tonnage.capacity.reports import audit_rules, backend_stats
from tonnage.drivers.base import Driver
from tonnage.rpc import messages, packed_reports

LOG = logging.getLogger(__name__)


class StampSource(Protocol):
    """The agent of a backend, which asks the schedulers."""

    def stamps(self, query: messages.StampQuery) -> Mapping[str, int]:
        """Return stamps of storages. Raises :class:`~tonnage.capacity.errors.TonnageError` if there is no answer."""


class StorageSnapshots:
    """Makes reports and listings with the driver.

    An operation should be either wholly in a report's figures or not at all. ``quiet_wait`` is how many seconds a
    report waits for running operations to end, if recent operations took less; ``quiet_look`` how many seconds new
    operations wait for the driver to collect the figures.

    ``stamp_source`` asks the schedulers for stamps of storages; a report goes without them if there is no answer.
    Stamps are taken only of storages that other backends share: a report contains a claim of another backend only if
    its stamp tells so, and a report without a stamp contains none. Schedulers tell which storages are shared.
    """

    def __init__(
        self,
        driver: Driver,
        operations: Operations,
        stamp_source: StampSource,
        quiet_wait: float,
        quiet_look: float,
    ) -> None:
        self._driver = driver
        self._operations = operations
        self._stamp_source = stamp_source
        self._stamp_failure_log = FailureLog(LOG)
        self._quiet_wait = quiet_wait
        self._quiet_look = quiet_look
        self._sharing = threading.Lock()
        self._shared_storages: frozenset[str] = frozenset()
        self._withdrawn = False

    def withdraw(self) -> None:
        """Report no pools from now on: schedulers place no volume in a pool that is not reported."""
        self._withdrawn = True

    def add_shared_storages(self, storage_ids: Collection[str]) -> bool:
        """Take stamps of these storages before each report from now on; return whether one of them is new."""
        with self._sharing:
            before = self._shared_storages
            self._shared_storages = before.union(storage_ids)
            return self._shared_storages != before

    def report(self, epoch: Epoch) -> messages.BackendReport:
        """Return a report of this moment, with stamps of a moment before it."""
        shared = self._shared_storages
        stamps = self._request_stamps(shared) if shared else {}
        return dataclasses.replace(self._collect(epoch), stamps=dict(stamps))

    def first_listing(self, epoch: Epoch, ledger_marks: Mapping[str, str]) -> messages.Listing:
        """Return the listing that follows a hello. ``ledger_marks`` are empty if the driver cannot mark the storage.

        Raises :class:`~tonnage.capacity.errors.DriverError` if the driver cannot list, or report although it has to.
        """
        listing = self.listing(epoch, with_figures=False)
        if ledger_marks:
            return dataclasses.replace(listing, ledger_marks=dict(ledger_marks))
        try:
            pools = [audit_rules.reported_name(pool) for pool in backend_stats.pools_of(self._driver.report())]
        except errors.TonnageError:
            raise
        except plugin_errors.CAUGHT as error:
            raise errors.DriverError(f"the driver cannot report: {plugin_errors.described(error)}") from error
        return dataclasses.replace(listing, unmarked_pools=pools)

    def listing(self, epoch: Epoch, with_figures: bool) -> messages.Listing:
        """Return a listing of all volumes, if wanted with figures to compare it with.

        Operations continue meanwhile. The listing names those that ran at any moment of it, since it may show their
        effect or not. Raises :class:`~tonnage.capacity.errors.DriverError` if the driver cannot list.
        """
        began = epoch.tick()
        try:
            volumes, snapshots = (
                audit_snapshot.take(self._driver, lambda: not self._operations.in_hand(since=began))
                if with_figures
                else (self._driver.list_volumes(), [])
            )
        except errors.TonnageError:
            raise
        except plugin_errors.CAUGHT as error:
            raise errors.DriverError(f"the driver cannot list volumes: {plugin_errors.described(error)}") from error
        # The tick first: an operation that ends after it ran during the listing, or began later.
        return messages.Listing(
            backend=self._driver.backend,
            epoch=epoch.number,
            tick=epoch.tick(),
            volumes=[
                messages.ListedVolume(volume_id=stored.id, pool=stored.pool, size_gb=stored.size_gb)
                for stored in volumes
            ],
            in_hand=self._operations.in_hand(since=began),
            audit_snapshots=snapshots,
        )

    def _request_stamps(self, storage_ids: Collection[str]) -> Mapping[str, int]:
        """Return stamps of storages, none if the schedulers do not answer."""
        backend = self._driver.backend
        try:
            stamps = self._stamp_source.stamps(messages.StampQuery(backend=backend, storage_ids=sorted(storage_ids)))
        except errors.TonnageError as error:
            self._stamp_failure_log.failed(f"Backend {backend} reports without stamps of its storages: {error.message}")
            return {}
        self._stamp_failure_log.recovered(f"Backend {backend} has stamps of its storages again")
        return stamps

    def _collect(self, epoch: Epoch) -> messages.BackendReport:
        """Return a report without stamps, of a moment without operations if there is one soon.

        An operation that ends while the driver collects the figures may be in them and has a later tick, so it counts
        twice until the next report. That is safe, though it wastes room for a moment: so a report does not wait for
        long operations, and operations do not wait for a long report.
        """
        operations = self._operations
        operations.suspend()
        try:
            if not operations.wait_idle(self._quiet_wait if operations.end_within(self._quiet_wait) else 0.0):
                operations.resume()
            seq, covers = epoch.begin_report()
            ended = operations.unacknowledged()
            began = time.monotonic()
            with self._resumed_if_long():
                reported: Any = [] if self._withdrawn else self._driver.report()
                if isinstance(reported, Mapping):  # as a driver of Cinder reports
                    reported = backend_stats.pools_of(reported)
                if isinstance(reported, Sized) and len(reported) > messages.MOST_POOLS:
                    raise errors.DriverError(f"the driver reports {packed_reports.too_many_pools(len(reported))}")
                # With the features that the driver lacks.
                lacks = {} if self._driver.supports_clone else {CLONE_SUPPORT: False}
                pools = [{**lacks, **pool} for pool in reported]
        finally:
            operations.resume()
        return messages.BackendReport(
            backend=self._driver.backend,
            epoch=epoch.number,
            seq=seq,
            covers=covers,
            pools=pools,
            ended=ended,
            in_hand=operations.in_hand(),
            age=time.monotonic() - began,
            supports_auto_ratio=self._driver.supports_auto_ratio,
        )

    @contextlib.contextmanager
    def _resumed_if_long(self) -> Iterator[None]:
        """Let operations begin again if the driver takes longer than ``quiet_look`` seconds."""
        timer = threading.Timer(self._quiet_look, self._operations.resume)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
