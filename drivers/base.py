# SPDX-License-Identifier: Apache-2.0
"""The base class of storage drivers, and the types of its arguments and results.

A driver is loaded by its entry point in the namespace ``tonnage.drivers``. It runs in an agent, next to the storage. It
reports the capacity of the storage, and creates, extends and deletes volumes. A driver enforces its limits by itself,
so an operation that no scheduler has admitted cannot over-provision either. Drivers do not depend on schedulers,
messages or databases.
"""

import abc
import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tonnage.capacity import arithmetic, errors
from tonnage.capacity.over_subscription import AUTO
from tonnage.capacity.pool_stats import PoolStats
from tonnage.capacity.pools.pool_table import Pool
from tonnage.capacity.reports.validation import validate
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.plugin import Plugin


def gib_rounded_down(size: int) -> float:
    """Return bytes as GiB, rounded down to two decimals: for total and free capacities."""
    return (size * 100 // GIB) / 100


def gib_rounded_up(size: int) -> float:
    """Return bytes as GiB, rounded up to two decimals: for provisioned capacities."""
    return -(-size * 100 // GIB) / 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The ratio and the calculation by which a scheduler admitted an operation; the driver's check uses the same."""

    ratio: float
    calculation: arithmetic.Calculation


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """The volume of an operation.

    ``pool`` is the pool's name within the backend, ``size_gb`` the size before the operation. For a create, ``size_gb``
    is the size of the new volume. ``terms`` is None where no scheduler was involved. ``operation_id`` is the same each
    time that an operation is repeated, and differs between operations; it is empty where no scheduler was involved.
    """

    id: str
    pool: str
    size_gb: int
    provisioning: Provisioning
    terms: Terms | None = None
    operation_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVolume:
    """A volume found on the storage. ``size_gb`` is its full (virtual) size in GiB."""

    id: str
    pool: str
    size_gb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A volume whose content is copied. ``backend`` is the full name ``host@backend``, ``pool`` the name within it.

    ``location`` is the ``location_info`` that the pool reports. It tells a driver whether it can reach the volume.
    """

    id: str
    backend: str
    pool: str
    size_gb: int
    location: str = ""


class Driver(Plugin):
    """Base class of all drivers.

    An agent may crash at any point and call any method again. The repeated call must complete the operation: creating a
    volume that exists in the right size, deleting a volume that does not exist and extending to a size already reached
    all succeed. Methods may be called from several threads at once, but never two of them for the same volume. (The
    source of a copy is a different volume.)

    All methods raise :class:`~tonnage.capacity.errors.DriverError` where the storage fails. A create, clone, extend or
    delete that the storage may have carried out, without an answer, raises its subclass
    :class:`~tonnage.capacity.errors.OutcomeUnknown`: the agent then repeats the call until the outcome is known. As
    the volume of a repeated create may exist, its ``clean`` failures must hold for the earlier calls too.
    """

    #: Operations that the driver supports. A configuration that contradicts these flags stops the agent at start.
    supports_thin: ClassVar[bool] = False
    supports_thick: ClassVar[bool] = False
    supports_extend: ClassVar[bool] = False
    supports_auto_ratio: ClassVar[bool] = False
    #: Name of a boolean option of the driver. Where it is true, the driver computes and reports its ratios by itself,
    #: and ``max_over_subscription_ratio`` has no effect.
    auto_ratio_option: ClassVar[str | None] = None
    supports_clone: ClassVar[bool] = False
    #: The driver can be the target of a migration; any volume can be migrated away.
    supports_migrate: ClassVar[bool] = False
    supports_manage: ClassVar[bool] = False

    def __init__(self, backend: str, conf: Any) -> None:
        """Store the name and the configuration of the backend.

        ``backend`` is the full name ``host@backend``; ``conf`` has the section's values as attributes. The loader
        passes a :class:`~tonnage.drivers.options.Section`, which also gives access to the sections of pools. The
        ``options`` of the driver are registered in that section.
        """
        super().__init__(conf)
        self.backend = backend

    @abc.abstractmethod
    def check(self) -> None:
        """Verify that the storage can be used, and remove the remains of operations that a crash interrupted.

        Called before any other method, and again while schedulers reject the storage: another file system may be
        mounted by then. Raises :class:`~tonnage.capacity.errors.ConfigurationError` that names the
        option to change, also where another pool, of this or another backend, would see the same volumes and could
        delete them.
        """

    def ledger_marks(self) -> Mapping[str, str | None]:
        """Return the mark of each pool's storage, which :meth:`mark_ledger` has written; None without a mark.

        This method writes nothing, and raises :class:`~tonnage.capacity.errors.DriverError` if a mark cannot be read.
        Schedulers reject storage with the mark of another ledger, which would take all volumes for orphans, and storage
        without the mark of the volumes that the ledger counts there: its file system is not mounted. A driver that
        cannot mark its storage inherits both methods; then the first listing has to show one of the volumes that the
        ledger counts in each pool.
        """
        return {}

    def mark_ledger(self, mark: str) -> None:
        """Write this mark to the storage of each pool that has no mark.

        Only schedulers know whether storage without a mark is new, so no other method writes it. The mark begins with
        the id of the ledger that has the volumes, and consists of letters, digits and hyphens. The call is repeated
        after each start. From the call on, the other methods raise :class:`~tonnage.capacity.errors.DriverError` for
        storage that has lost its mark: it is not the storage with the volumes, so nothing can be created there, and a
        missing volume is not a deleted one.
        """
        return

    @abc.abstractmethod
    def report(self) -> Sequence[Mapping[str, Any]]:
        """Return the current figures of each pool: capacities in GiB with two decimals, and capabilities.

        The documentation of driver reports defines the fields; ``pool_name``, ``total_capacity_gb`` and
        ``free_capacity_gb`` are required. The figures include every operation that ended before the call. Two calls may
        run at once: one for a report, and one together with a list of the volumes.
        """

    @abc.abstractmethod
    def create(self, volume: Volume) -> None:
        """Create the volume. A create that fails leaves nothing of it behind.

        Raises :class:`~tonnage.capacity.errors.CapacityExceeded` if it does not fit, and
        :class:`~tonnage.capacity.errors.Conflict` if the storage has another volume in its place, which
        :meth:`list_volumes` returns under this id: it counts, and the create is not repeated.
        """

    @abc.abstractmethod
    def extend(self, volume: Volume, new_size_gb: int) -> None:
        """Extend the volume to ``new_size_gb``; never shrink it.

        Raises :class:`~tonnage.capacity.errors.CapacityExceeded` if the growth does not fit and
        :class:`~tonnage.capacity.errors.NotFound` if the volume does not exist.
        """

    @abc.abstractmethod
    def delete(self, volume: Volume) -> None:
        """Delete the volume. Succeeds if it does not exist."""

    @abc.abstractmethod
    def list_volumes(self) -> Sequence[StoredVolume]:
        """Return every finished volume on this backend, including volumes that Tonnage has not created."""

    def one_look(self) -> contextlib.AbstractContextManager[bool]:
        """Make this thread's calls of :meth:`report` and :meth:`list_volumes` within the context use one snapshot.

        The value of the context is true if they do. An audit compares the report with the list, and other programs may
        change the storage between the two calls. A driver that cannot exclude that inherits this method: the audit then
        lists the volumes again after the report, and ignores each difference between the two lists. A driver that
        derives from one with snapshots, and takes figures from another place as well, returns
        ``Driver.one_look(self)``.
        """
        return contextlib.nullcontext(enter_result=False)

    def clone(self, volume: Volume, source: Source) -> None:
        """Create the volume with the content of ``source``, which is on this backend and not larger.

        For ``supports_clone``. Limits and failures are those of :meth:`create`; the source is not changed.
        """
        raise self._unsupported("clone volumes")

    def migrate(self, volume: Volume, source: Source) -> None:
        """Create the volume on this backend with the content of ``source``, which is elsewhere and not larger.

        For ``supports_migrate``. Limits and failures are those of :meth:`create`: an incomplete copy does not exist.
        The source is not changed; after this method succeeds, it is deleted. A volume that exists already, in the right
        size, is therefore a success only if it has the content of the source. A source that cannot be reached from this
        host raises :class:`~tonnage.capacity.errors.DriverError` with ``clean``.
        """
        raise self._unsupported("take over volumes from elsewhere")

    def manage(self, volume: Volume, reference: str) -> float:
        """Turn the object on the storage named ``reference`` into the volume, in its pool; return its size in GiB.

        For ``supports_manage``. Afterwards the object is known by the volume's id alone; ``volume.size_gb`` is ignored.
        If the volume exists and the reference does not, an earlier call has done the work. A reference that does not
        exist raises :class:`~tonnage.capacity.errors.DriverError` with ``clean``; a size that has to be rounded up and
        does not fit raises :class:`~tonnage.capacity.errors.CapacityExceeded`.
        """
        raise self._unsupported("manage volumes on the storage")

    def has_news(self) -> bool:
        """Return whether a change since the last report is urgent enough for an early report.

        For drivers that notice changes at no cost: the agent asks every second. Changes by Tonnage are reported anyway.
        This method never raises.
        """
        return False

    def default_terms(self, stats: PoolStats) -> Terms:
        """Return the terms of an operation without a scheduler: the pool's own ratio and the safer calculation."""
        ratio = stats.ratio
        if ratio == AUTO:
            ratio = float(arithmetic.auto_ratio(stats.total, stats.free, stats.provisioned, 0.0))
        return Terms(
            ratio=1.0 if ratio is None or isinstance(ratio, str) else ratio, calculation=arithmetic.Calculation.CINDER
        )

    def admit(self, figures: Mapping[str, Any], volume: Volume, size_gb: float) -> None:
        """Check that ``size_gb`` more GiB of ``volume`` fit into its pool.

        ``figures`` is the pool's mapping as :meth:`report` returns it. The check is the scheduler's own admission
        function. Raises :class:`~tonnage.capacity.errors.CapacityExceeded` with the numbers.
        """
        pool, calculation = self._pool_under_terms(figures, volume)
        thin = volume.provisioning is Provisioning.THIN
        if not arithmetic.admits(pool, size_gb, thin, calculation):
            largest = float(arithmetic.headroom(pool, thin, calculation))
            provisioned = f"provisioned {pool.provisioned:g}, " if thin else ""
            rule = f"ratio {pool.ratio:g}, {calculation}" if thin else "thick"
            raise errors.CapacityExceeded(
                f"pool {pool.name} cannot take {size_gb:.12g} GiB {volume.provisioning}: headroom {largest:.2f} GiB "
                f"(total {pool.total:g}, free {pool.free:g}, {provisioned}"
                f"reserved {pool.reserved_percentage:g} %, {rule})"
            )

    def admit_data(self, figures: Mapping[str, Any], volume: Volume, data_gb: float) -> None:
        """Check that ``data_gb`` GiB can be written to a thin ``volume`` at once, in addition to :meth:`admit`.

        Data takes up physical space at any ratio. Raises :class:`~tonnage.capacity.errors.CapacityExceeded` with the
        numbers.
        """
        pool, _ = self._pool_under_terms(figures, volume)
        physical_room = max(float(arithmetic.physical_room(pool)), 0.0)
        if data_gb > physical_room:
            raise errors.CapacityExceeded(
                f"pool {pool.name} cannot take {data_gb:.2f} GiB of data: there is physical room for "
                f"{physical_room:.2f} GiB (total {pool.total:g}, free {pool.free:g}, "
                f"reserved {pool.reserved_percentage:g} %)"
            )

    def _pool_under_terms(self, figures: Mapping[str, Any], volume: Volume) -> tuple[Pool, arithmetic.Calculation]:
        checked = validate([figures])
        if checked.errors:
            raise errors.DriverError(f"backend {self.backend}: {checked.errors[0]}", clean=True)
        stats = checked.pools[0]
        terms = volume.terms or self.default_terms(stats)
        pool = Pool(
            name=f"{self.backend}#{stats.name}",
            total=stats.total,
            free=stats.free,
            # A driver that reports no provisioned capacity has no ledger: the used capacity is the lower bound.
            provisioned=stats.total - stats.free if math.isnan(stats.provisioned) else stats.provisioned,
            reserved_percentage=stats.reserved_percentage,
            ratio=terms.ratio,
        )
        return pool, terms.calculation

    def _unsupported(self, operation: str) -> errors.DriverError:
        return errors.DriverError(
            f"driver {type(self).__name__} of backend {self.backend} cannot {operation}", clean=True
        )
