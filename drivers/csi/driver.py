# SPDX-License-Identifier: Apache-2.0
"""The ``csi`` driver: has any plugin of the Container Storage Interface make volumes, and asks it what is available.

A pool is a storage class in a segment of the cluster. The plugin names volumes as it likes; which one is which of ours
is kept in a file, see :mod:`tonnage.drivers.csi.volume_records`.
"""

import contextlib
import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oslo_log import log as logging

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers.base import Driver, StoredVolume, Volume
from tonnage.drivers.csi import ephemeral_volumes, plugin_settings
from tonnage.drivers.csi.class_pools import Place, Places
from tonnage.drivers.csi.volume_records import Record, Records
from tonnage.drivers.options import Section

try:
    from tonnage.drivers.csi import error_context, inventory, startup_checks
    from tonnage.drivers.csi.connection import CallFailed, Connection, Deadline
    from tonnage.drivers.csi.plugin import Abilities, BadAnswer, Capacity, Plugin
    from tonnage.drivers.csi.provisioner import Maker
except Exception as error:  # a library that is not there, or older than the messages were compiled for
    # The sample configuration names the options of all drivers, whatever is installed.
    _MISSING = str(error)
else:
    _MISSING = ""

LOG = logging.getLogger(__name__)


class CSIDriver(Driver):
    """Volumes of a plugin of the Container Storage Interface.

    What is available is as the plugin says, so over-subscription, if there is any, is the plugin's. To Tonnage all
    volumes are thick: what one may take is not available to another.
    """

    supports_thick = True
    supports_extend = True
    supports_manage = True

    options = plugin_settings.OPTIONS

    def __init__(self, backend: str, conf: Section) -> None:
        super().__init__(backend, conf)
        if _MISSING:
            raise errors.ConfigurationError(
                f"[{conf.section_name}] volume_driver = csi: gRPC cannot be used: {_MISSING}; install tonnage[csi]"
            )
        self._endpoint, self._file = plugin_settings.endpoint(conf), plugin_settings.state_file(conf)
        self._places = Places(plugin_settings.storage_classes(conf, backend), conf, backend.partition("@")[0])
        self._records = Records(self._file)
        self._plugin = Plugin(Connection(self._endpoint))
        self._stock = inventory.Stock(self._plugin, self._records)
        self._maker = Maker(self._plugin, self._stock, self._records, ephemeral_volumes.configured(conf))
        self._abilities: Abilities | None = None
        self._reported: tuple[int, ...] = ()
        #: Between looking at what is available and taking it; by what pools draw on.
        self._taking: dict[str, threading.Lock] = {}
        #: What was last said of pools that cannot be reported; said again only when it changes.
        self._told: dict[str, str] = {}

    def check(self) -> None:
        """Ask the plugin what it can do, see that the file can be used, and finish what was interrupted."""
        section = self.conf.section_name
        self._abilities = startup_checks.asked(self._plugin, self._places, section, self._endpoint, self._soon())
        startup_checks.own_file(self._records, self._file, self.backend, section)
        deadline = self._soon()
        for record in self._records.all():
            if record.plugin_id is None:
                self._finish(record, deadline)

    def report(self) -> Sequence[Mapping[str, Any]]:
        """Return the figures of each pool. One of which the plugin tells nothing now is left out, so none lingers."""
        deadline = self._soon()
        abilities = self._able()
        self._reported = self._places.mark()
        places = self._places.now()
        try:
            used = self._stock.used(abilities.lists, places, deadline)
        except (CallFailed, BadAnswer, sqlite3.Error) as error:
            self._tell({place.name: f"its volumes are not known: {error}" for place in places})
            return []
        found = self._stock.capacities(places, deadline)
        self._tell(found.failures)
        return [
            inventory.figures(place, found.known[place.name], used.get(place.name, 0), abilities)
            for place in places
            if place.name in found.known
        ]

    def has_news(self) -> bool:
        """Tell whether the nodes are others."""
        return self._places.mark() != self._reported

    def create(self, volume: Volume) -> None:
        """Have the plugin make the volume, or find the one that it has made by that name."""
        doing = self._target(volume, "create")
        place = self._place(volume, doing, may_be_inline=True)
        is_inline = place.storage_class.wish is None
        if not is_inline and not self._able().creates:
            raise errors.DriverError(f"{doing}: the plugin makes no volumes (CREATE_DELETE_VOLUME)", clean=True)
        size = volume.size_gb * GIB
        with self._taken(place), error_context.recording(doing, self._file):
            record = self._records.find(volume.pool, volume.id)
            present = None if record is None else self._size(record, doing)
            if present not in (None, size):
                raise errors.DriverError(f"{doing}: there is one of {present / GIB:g} GiB already")
            if present is not None:
                return
            # What the plugin was asked for was admitted before that.
            again = record is not None and record.plugin_id is None
            if record is not None and again and record.size != size:
                raise errors.DriverError(f"{doing}: {record.size / GIB:g} GiB were asked for before, and may be there")
            if record is None or not again:
                self._refuse_too_large(self._admit(place, volume, volume.size_gb, doing), volume)
                name = self._name(volume.pool, volume.id)
                # That of an inline one is the name of a file as well.
                name = f"csi-{hashlib.sha256(name.encode()).hexdigest()}" if is_inline else name
                record = Record(pool=volume.pool, id=volume.id, name=name, size=size, plugin_id=None)
            self._maker.make(record, place, doing, again, Deadline(self.conf.csi_timeout))

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        """Have the plugin grow the volume."""
        doing = self._target(volume, f"extend to {new_size_gb} GiB")
        place = self._place(volume, doing)
        with self._taken(place), error_context.recording(doing, self._file):
            record = self._records.find(volume.pool, volume.id)
            present = None if record is None else self._size(record, doing)
            if record is None or record.plugin_id is None or present is None:
                raise errors.NotFound(f"{doing}: there is no such volume")
            if new_size_gb * GIB > present:
                self._admit(place, volume, new_size_gb - present / GIB, doing)
                self._records.keep(replace(record, size=self._grow(record.plugin_id, new_size_gb, place, doing)))

    def delete(self, volume: Volume) -> None:
        """Have the plugin delete the volume. What it has not told the id of it is asked for first."""
        doing = self._target(volume, "delete")
        with error_context.recording(doing, self._file):
            record = self._records.find(volume.pool, volume.id)
            if record is not None and record.plugin_id is None:
                record = self._asked_again(record, doing, Deadline(self.conf.csi_timeout))
            if record is None or record.plugin_id is None:
                return
            self._maker.unmake(record, doing, Deadline(self.conf.csi_timeout))

    def list_volumes(self) -> Sequence[StoredVolume]:
        """Return the plugin's volumes, also those that others have made."""
        doing = f"volumes of backend {self.backend} cannot be listed"
        with error_context.recording(doing, self._file), error_context.asking(doing):
            stored = self._stock.volumes(self._able().lists, self._places.now(), self._soon())
        return [StoredVolume(id=each.id, pool=each.pool, size_gb=each.size / GIB) for each in stored]

    def manage(self, volume: Volume, reference: str) -> float:
        """Record what the plugin has as ``reference``, an id of its own or of ours, as the volume."""
        doing = self._target(volume, f"manage of {reference!r}")
        place = self._place(volume, doing)
        with self._taken(place), error_context.recording(doing, self._file):
            record = self._records.find(volume.pool, volume.id)
            with error_context.asking(doing):
                found = self._stock.referenced(self._able().lists, place, reference, self._soon())
            if record is not None and (found is None or found.plugin_id == record.plugin_id):
                found = record
            elif record is not None:
                raise errors.DriverError(f"{doing}: there is a volume {volume.id} already")
            if found is None or found.plugin_id is None:
                raise errors.DriverError(f"{doing}: there is no such volume in that pool", clean=True)
            if not found.size:
                raise errors.DriverError(f"{doing}: the plugin does not say how large it is", clean=True)
            size_gb = -(-found.size // GIB)
            if size_gb * GIB != found.size:
                self._admit(place, volume, size_gb - found.size / GIB, doing)
                self._grow(found.plugin_id, size_gb, place, doing)
            self._records.keep(replace(found, id=volume.id, size=size_gb * GIB), instead_of=found)
            return float(size_gb)

    def _able(self) -> "Abilities":
        if self._abilities is None:
            raise errors.DriverError(f"backend {self.backend} has not been checked", clean=True)
        return self._abilities

    def _target(self, volume: Volume, verb: str) -> str:
        """Return words for what is being done to a volume, whose pool there has to be."""
        doing = f"volume {volume.id} in pool {self.backend}#{volume.pool}: {verb} failed"
        if not self._places.knows(volume.pool):
            raise errors.DriverError(f"{doing}: there is no such pool", clean=True)
        return doing

    def _place(self, volume: Volume, doing: str, may_be_inline: bool = False) -> Place:
        """Return the volume's pool if it takes volumes like this now."""
        place = self._find_place(volume.pool)
        if place is None:
            raise errors.DriverError(f"{doing}: no node is in that segment any more", clean=True)
        if place.storage_class.wish is None:
            self._maker.inline_place(doing)
            if not may_be_inline:
                raise errors.DriverError(f"{doing}: inline ephemeral volumes stay as they were made", clean=True)
        if volume.provisioning is not Provisioning.THICK:
            raise errors.DriverError(f"{doing}: the pool makes no {volume.provisioning} volumes", clean=True)
        return place

    def _find_place(self, pool: str) -> Place | None:
        return next((place for place in self._places.now() if place.name == pool), None)

    def _name(self, pool: str, volume_id: str) -> str:
        """Return what the plugin is told to call a volume: the same is another one in another pool or backend."""
        where = hashlib.sha256(f"{self.backend}#{pool}".encode()).hexdigest()
        return f"{volume_id}-{where[:8]}"

    # What there is

    def _soon(self) -> "Deadline":
        return Deadline(self.conf.csi_look_timeout)

    def _size(self, record: Record, doing: str) -> int | None:
        """Return how many bytes a recorded volume has, None if it is not there."""
        with error_context.asking(doing):
            return self._stock.size(self._able().lists, record, self._soon())

    def _admit(self, place: Place, volume: Volume, size_gb: float, doing: str) -> "Capacity":
        """Check that so much more fits, by what the plugin has now; return that."""
        deadline = self._soon()
        with error_context.asking(doing, clean=True):
            used = self._stock.used(self._able().lists, self._places.now(), deadline)
            capacity = self._stock.capacity(place, deadline)
        self.admit(inventory.figures(place, capacity, used.get(place.name, 0), self._able()), volume, size_gb)
        return capacity

    def _refuse_too_large(self, capacity: "Capacity", volume: Volume) -> None:
        if capacity.maximum is not None and volume.size_gb * GIB > capacity.maximum:
            raise errors.CapacityExceeded(
                f"pool {self.backend}#{volume.pool} cannot take {volume.size_gb} GiB at once: the largest volume the "
                f"plugin makes now has {capacity.maximum / GIB:.2f} GiB, of {capacity.available / GIB:.2f} available"
            )

    def _tell(self, failures: Mapping[str, str]) -> None:
        """Say in the log which pools cannot be reported, once until it changes."""
        for pool, failure in failures.items():
            if self._told.get(pool) != failure:
                LOG.warning("Pool %s#%s is not reported: %s", self.backend, pool, failure)
        for pool in self._told.keys() - failures.keys():
            LOG.info("Pool %s#%s is reported again", self.backend, pool)
        self._told = dict(failures)

    # What is done

    def _asked_again(self, record: Record, doing: str, deadline: "Deadline") -> Record | None:
        """Return what the plugin has of what it was asked for before, None if that is nothing."""
        place = self._find_place(record.pool)
        if place is None:
            raise errors.DriverError(f"{doing}: no node is in that segment any more")
        return self._maker.find(record, place, doing, deadline)

    def _finish(self, record: Record, deadline: "Deadline") -> None:
        """Have made what an agent that died had asked for; the ledger goes by what is listed then."""
        doing = f"volume {record.id} in pool {self.backend}#{record.pool}: finishing an interrupted create failed"
        try:
            made = self._asked_again(record, doing, deadline)
        except errors.TonnageError as error:
            LOG.warning("%s", error)
        else:
            LOG.info(
                "Volume %s in pool %s#%s, whose create was interrupted, is %s",
                *(record.id, self.backend, record.pool, "not there" if made is None else f"there as {made.plugin_id}"),
            )

    def _grow(self, plugin_id: str, size_gb: int, place: Place, doing: str) -> int:
        if not self._able().expands:
            raise errors.DriverError(f"{doing}: the plugin grows no volumes (EXPAND_VOLUME)", clean=True)
        return self._maker.grow(plugin_id, size_gb * GIB, place, doing, Deadline(self.conf.csi_timeout))

    @contextlib.contextmanager
    def _taken(self, place: Place) -> Iterator[None]:
        """Let nothing else take of the same storage meanwhile."""
        with self._taking.setdefault(place.storage_id or place.name, threading.Lock()):
            yield
