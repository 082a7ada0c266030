# SPDX-License-Identifier: Apache-2.0
"""What a storage driver is.

A driver is loaded by its entry point in the namespace ``tonnage.drivers`` and runs in an agent, next to the storage. It
says what the storage has, makes, grows and deletes volumes, and keeps its limits by itself: an operation that no
scheduler has seen cannot over-provision either. Drivers know nothing of schedulers, messages or databases.
"""

import abc
import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from oslo_config import cfg

from tonnage.capacity import arithmetic, errors
from tonnage.capacity.over_subscription import AUTO
from tonnage.capacity.pools.pool_table import Pool
from tonnage.capacity.reports.pool_stats import PoolStats
from tonnage.capacity.reports.validation import validate
from tonnage.capacity.request import Provisioning


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a scheduler judged an operation by; the driver's own check uses the same ratio and calculation."""

    ratio: float
    calculation: arithmetic.Calculation


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume to work on. ``pool`` is its name within the backend, ``size_gb`` its size before the operation.

    For a create, ``size_gb`` is the size to make. ``terms`` is None where no scheduler was asked.
    """

    id: str
    pool: str
    size_gb: int
    provisioning: Provisioning
    terms: Terms | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVolume:
    """A volume found on the storage, in GiB of its full (virtual) size."""

    id: str
    pool: str
    size_gb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A volume whose content is copied. ``backend`` is the full name ``host@backend``, ``pool`` the name within it.

    ``location`` is what the pool reports as ``location_info``: from it a driver tells whether it can reach the volume.
    """

    id: str
    backend: str
    pool: str
    size_gb: int
    location: str = ""


class Driver(abc.ABC):
    """Base of all drivers.

    Every method may be called again after a crash at any point, and must then do the rest: creating a volume that is
    there in the right size, deleting one that is gone and extending to a size already reached all succeed. Methods may
    be called from several threads at once, but never two of them for the same volume. (A copy's source is another.)

    All of them raise :class:`~tonnage.capacity.errors.DriverError` where the storage fails.
    """

    #: What the driver can do. A configuration that contradicts this stops the agent at start.
    supports_thin: ClassVar[bool] = False
    supports_thick: ClassVar[bool] = False
    supports_extend: ClassVar[bool] = False
    supports_auto_ratio: ClassVar[bool] = False
    #: Name of an own option, true or false, that has the driver work its ratios out by itself and report them. Where it
    #: is true, ``max_over_subscription_ratio`` counts for nothing.
    auto_ratio_option: ClassVar[str | None] = None
    supports_clone: ClassVar[bool] = False
    #: Being the target of a migration; any volume can be moved away.
    supports_migrate: ClassVar[bool] = False
    supports_manage: ClassVar[bool] = False

    #: Options of the driver, registered in the conf section of each backend that uses it.
    options: ClassVar[Sequence[cfg.Opt]] = ()

    def __init__(self, backend: str, conf: Any) -> None:
        """``backend`` is the full name ``host@backend``; ``conf`` has the section's values as attributes.

        The loader passes a :class:`~tonnage.drivers.options.Section`, which also gives access to sections for pools.
        """
        self.backend = backend
        self.conf = conf

    @abc.abstractmethod
    def check(self) -> None:
        """Make sure that the storage can be used, and tidy up what a crash left half-made.

        Called once, before anything else. Raises :class:`~tonnage.capacity.errors.ConfigurationError` naming the option
        to change, also where another pool, of whichever backend, would see the same volumes and could delete them.
        """

    @abc.abstractmethod
    def report(self) -> Sequence[Mapping[str, Any]]:
        """Return what each pool has now: capacities in GiB with two decimals, and capabilities.

        The fields are defined in the documentation ("What drivers report"); ``pool_name``, ``total_capacity_gb`` and
        ``free_capacity_gb`` are required. The figures contain every operation that had ended before the call. Two
        calls may run at once: one for a report, one beside a list of the volumes.
        """

    @abc.abstractmethod
    def create(self, volume: Volume) -> None:
        """Make the volume. On failure nothing of it is left behind.

        Raises :class:`~tonnage.capacity.errors.CapacityExceeded` if it does not fit.
        """

    @abc.abstractmethod
    def extend(self, volume: Volume, new_size_gb: int) -> None:
        """Grow the volume to ``new_size_gb``; never shrinks one.

        Raises :class:`~tonnage.capacity.errors.CapacityExceeded` if the growth does not fit and
        :class:`~tonnage.capacity.errors.NotFound` if the volume is not there.
        """

    @abc.abstractmethod
    def delete(self, volume: Volume) -> None:
        """Delete the volume. Succeeds if it is not there."""

    @abc.abstractmethod
    def list_volumes(self) -> Sequence[StoredVolume]:
        """Return every finished volume on this backend, whoever made it, known to Tonnage or not."""

    def one_look(self) -> contextlib.AbstractContextManager[bool]:
        """Have :meth:`report` and :meth:`list_volumes`, called by this thread meanwhile, tell of one look.

        The context's value is whether they do. An auditor holds what is reported against what is listed, and others
        may change the storage in between. A driver that cannot rule that out leaves this as it is: then it is asked for
        the list once more after the report, and what both lists do not agree in tells nothing. One that is derived from
        a driver that can, and takes figures from elsewhere besides, returns ``Driver.one_look(self)``.
        """
        return contextlib.nullcontext(enter_result=False)

    def clone(self, volume: Volume, source: Source) -> None:
        """Make the volume with the content of ``source``, which is on this backend and not larger.

        For ``supports_clone``. Limits and failures are those of :meth:`create`; the source is not touched.
        """
        raise self._cannot("clone volumes")

    def migrate(self, volume: Volume, source: Source) -> None:
        """Make the volume here with the content of ``source``, which is somewhere else and not larger.

        For ``supports_migrate``. Limits and failures are those of :meth:`create`: what was not copied completely is not
        there. The source is not touched; once this has succeeded, it will be deleted. So where the volume is there
        already, in the right size, that is a success only if it has the content of the source. A source that cannot be
        reached from here is a :class:`~tonnage.capacity.errors.DriverError` with ``clean``.
        """
        raise self._cannot("take over volumes from elsewhere")

    def manage(self, volume: Volume, reference: str) -> float:
        """Make what is on the storage as ``reference`` the volume, in its pool; return its size in GiB.

        For ``supports_manage``. Afterwards it goes by the volume's id alone; ``volume.size_gb`` means nothing. Where
        the volume is there and the reference is not, that has been done before. Nothing of that name is a
        :class:`~tonnage.capacity.errors.DriverError` with ``clean``; a size that has to be rounded up and does not fit
        is :class:`~tonnage.capacity.errors.CapacityExceeded`.
        """
        raise self._cannot("manage what is on the storage")

    def has_news(self) -> bool:
        """Tell whether something has changed since the last report that need not wait for the next one.

        For drivers that notice it at no cost: asked every second. What Tonnage changes is reported anyway. It never
        raises.
        """
        return False

    def default_terms(self, stats: PoolStats) -> Terms:
        """Return what to judge by where no scheduler was asked: the pool's own ratio, the safer calculation."""
        ratio = stats.ratio
        if ratio == AUTO:
            ratio = float(arithmetic.auto_ratio(stats.total, stats.free, stats.provisioned, 0.0))
        return Terms(
            ratio=1.0 if ratio is None or isinstance(ratio, str) else ratio, calculation=arithmetic.Calculation.CINDER
        )

    def admit(self, figures: Mapping[str, Any], volume: Volume, size_gb: float) -> None:
        """Check ``size_gb`` more GiB of ``volume`` against figures as :meth:`report` gives them.

        This is the scheduler's own admission function. Raises
        :class:`~tonnage.capacity.errors.CapacityExceeded` with the numbers.
        """
        pool, calculation = self._judged(figures, volume)
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
        """Check that ``data_gb`` GiB can be written to a thin ``volume`` at once, besides :meth:`admit`.

        Whatever the ratio, data takes up physical space. Raises
        :class:`~tonnage.capacity.errors.CapacityExceeded` with the numbers.
        """
        pool, _ = self._judged(figures, volume)
        room = max(float(arithmetic.physical_room(pool)), 0.0)
        if data_gb > room:
            raise errors.CapacityExceeded(
                f"pool {pool.name} cannot take {data_gb:.2f} GiB of data: there is physical room for {room:.2f} GiB "
                f"(total {pool.total:g}, free {pool.free:g}, reserved {pool.reserved_percentage:g} %)"
            )

    def _judged(self, figures: Mapping[str, Any], volume: Volume) -> tuple[Pool, arithmetic.Calculation]:
        checked = validate([figures])
        if checked.errors:
            raise errors.DriverError(f"backend {self.backend}: {checked.errors[0]}", clean=True)
        stats = checked.pools[0]
        terms = volume.terms or self.default_terms(stats)
        pool = Pool(
            name=f"{self.backend}#{stats.name}",
            total=stats.total,
            free=stats.free,
            # A driver that reports none has no ledger to fall back on: what is in use is the least that is promised.
            provisioned=stats.total - stats.free if math.isnan(stats.provisioned) else stats.provisioned,
            reserved_percentage=stats.reserved_percentage,
            ratio=terms.ratio,
        )
        return pool, terms.calculation

    def _cannot(self, what: str) -> errors.DriverError:
        return errors.DriverError(f"driver {type(self).__name__} of backend {self.backend} cannot {what}", clean=True)
