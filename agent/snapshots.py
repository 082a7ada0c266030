# SPDX-License-Identifier: Apache-2.0
"""What a backend tells of its storage: reports of its figures and lists of its volumes, each with its place in time."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping

from tonnage.agent import audit_snapshot
from tonnage.agent.epoch import Epoch
from tonnage.agent.operations import Operations
from tonnage.capacity import errors, plugin_errors
from tonnage.drivers.base import Driver
from tonnage.rpc import messages


class Looks:
    """Has the driver look. ``stamp`` asks the schedulers for stamps of storages, and returns none where it cannot.

    Each operation shall be either wholly in a report's figures or not at all. ``quiet_wait`` is how many seconds a
    report waits for running operations to end, if they are of a kind that takes less; ``quiet_look`` how many others
    wait for the report to have looked.
    """

    def __init__(
        self,
        driver: Driver,
        operations: Operations,
        stamp: Callable[[Collection[str]], Mapping[str, int]],
        quiet_wait: float,
        quiet_look: float,
    ) -> None:
        self._driver = driver
        self._operations = operations
        self._stamp = stamp
        self._quiet_wait = quiet_wait
        self._quiet_look = quiet_look
        self._storages: frozenset[str] = frozenset()

    def report(self, epoch: Epoch) -> messages.BackendReport:
        """Return a report of this moment.

        Stamps are of a moment before the look, and what to ask them for only a look can tell. So where that shows
        another storage than the one before it, the driver looks once more.
        """
        stamps = self._stamps(self._storages)
        report = self._look(epoch)
        found = _storages(report)
        if not found <= self._storages and (stamps := self._stamps(found)):
            report = self._look(epoch)
        self._storages = found
        return dataclasses.replace(report, stamps={name: stamps[name] for name in sorted(found) if name in stamps})

    def listing(self, epoch: Epoch, with_figures: bool) -> messages.Listing:
        """Return a list of all volumes, if wanted with figures to hold it against.

        Operations go on meanwhile. Those that did so at any moment of it are named as in hand: the list may show them
        or not. Raises :class:`~tonnage.capacity.errors.DriverError` if the driver cannot tell.
        """
        began = epoch.tick()
        try:
            volumes, tallies = (
                audit_snapshot.tallied(self._driver, lambda: not self._operations.in_hand(since=began))
                if with_figures
                else (self._driver.list_volumes(), [])
            )
        except errors.TonnageError:
            raise
        except plugin_errors.CAUGHT as error:
            raise errors.DriverError(f"the driver cannot list volumes: {plugin_errors.described(error)}") from error
        # The tick first: what ends after it was in hand while the driver looked, or began later.
        return messages.Listing(
            backend=self._driver.backend,
            epoch=epoch.number,
            tick=epoch.tick(),
            volumes=[
                messages.ListedVolume(volume_id=stored.id, pool=stored.pool, size_gb=stored.size_gb)
                for stored in volumes
            ],
            in_hand=self._operations.in_hand(since=began),
            tallies=tallies,
        )

    def _stamps(self, storages: frozenset[str]) -> Mapping[str, int]:
        return self._stamp(storages) if storages else {}

    def _look(self, epoch: Epoch) -> messages.BackendReport:
        """Have the driver look, at a moment without operations if there is one soon.

        An operation that ends while the driver looks may show in the figures and has a later tick all the same, so it
        would count twice until the next report. That is safe, if stingy: long operations are not waited for, and none
        has to wait for a long look.
        """
        operations = self._operations
        operations.hold()
        try:
            if not operations.drained(self._quiet_wait if operations.brief(self._quiet_wait) else 0.0):
                operations.release()
            seq, covers = epoch.begin_report()
            ended = operations.unacknowledged()
            began = time.monotonic()
            with self._released_if_long():
                pools = [dict(pool) for pool in self._driver.report()]
        finally:
            operations.release()
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
    def _released_if_long(self) -> Iterator[None]:
        """Let operations begin again where the driver takes long."""
        patience = threading.Timer(self._quiet_look, self._operations.release)
        patience.start()
        try:
            yield
        finally:
            patience.cancel()
            patience.join()


def _storages(report: messages.BackendReport) -> frozenset[str]:
    names = (pool.get("storage_id") for pool in report.pools)
    return frozenset(name for name in names if isinstance(name, str))
