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

    Stamps are taken only of storages that other backends share: a claim of another backend is contained in a report
    only if the stamp says so, and one without a stamp contains none. The schedulers tell which storages these are.

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
        self._sharing = threading.Lock()
        self._shared: frozenset[str] = frozenset()

    def share(self, storage_ids: Collection[str]) -> bool:
        """Take stamps of these storages before each look from now on; return whether that is new of one of them."""
        with self._sharing:
            before = self._shared
            self._shared = before.union(storage_ids)
            return self._shared != before

    def report(self, epoch: Epoch) -> messages.BackendReport:
        """Return a report of this moment, with stamps of a moment before the look."""
        shared = self._shared
        stamps = self._stamp(shared) if shared else {}
        return dataclasses.replace(self._look(epoch), stamps=dict(stamps))

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
