# SPDX-License-Identifier: Apache-2.0
"""Having a plugin make and grow volumes, and recording what becomes of it.

``doing`` are words for the operation, which errors begin with.
"""

from dataclasses import replace

from tonnage.capacity import errors
from tonnage.drivers.csi.class_pools import Place
from tonnage.drivers.csi.connection import CallFailed, Deadline
from tonnage.drivers.csi.ephemeral_volumes import InlinePlace
from tonnage.drivers.csi.inventory import Stock
from tonnage.drivers.csi.plugin import BadAnswer, Held, Plugin
from tonnage.drivers.csi.storage_class_config import Wish
from tonnage.drivers.csi.volume_records import Record, Records


class Maker:
    """All methods raise :class:`~tonnage.capacity.errors.CapacityExceeded` where the plugin has no room, and
    :class:`~tonnage.capacity.errors.DriverError`.
    """

    def __init__(self, plugin: Plugin, stock: Stock, records: Records, inline: InlinePlace | None) -> None:
        self._plugin = plugin
        self._inline = inline
        self._stock = stock
        self._records = records

    def inline_place(self, doing: str) -> InlinePlace:
        """Return where inline ephemeral volumes are published."""
        if self._inline is None:
            raise errors.DriverError(
                f"{doing}: inline ephemeral volumes are made by their nodes, and csi_ephemeral_folder is not set here",
                clean=True,
            )
        return self._inline

    def make(self, record: Record, place: Place, doing: str, again: bool, deadline: Deadline) -> Record:
        """Have the plugin make, or find, what is recorded; ``again`` if it may have been made already."""
        with self._stock.making(record):
            # Before the plugin is asked: a crash in between loses no volume.
            self._records.keep(record)
            try:
                held = self._made(record, place, doing, deadline)
            except CallFailed as error:
                clean = error.absent if again else error.refused
                if clean:
                    self._records.drop(record)
                raise _said(error, doing, clean) from error
            except BadAnswer as error:
                raise errors.DriverError(f"{doing}: {error}") from error
            made = replace(record, plugin_id=held.id, size=held.size or record.size)
            self._records.keep(made)
        if made.size != record.size:
            raise errors.DriverError(f"{doing}: the plugin made {made.size} bytes, not exactly {record.size}")
        return made

    def unmake(self, record: Record, doing: str, deadline: Deadline) -> None:
        """Have the plugin delete a volume that it has made, and forget it."""
        try:
            if record.inline:
                inline = self.inline_place(doing)
                self._plugin.unpublish(record.name, inline.publication(record.name, record.size).target, deadline)
            elif record.plugin_id is not None:
                self._plugin.delete(record.plugin_id, deadline)
        except (CallFailed, BadAnswer) as error:
            raise errors.DriverError(f"{doing}: {error}") from error
        self._records.drop(record)

    def find(self, record: Record, place: Place, doing: str, deadline: Deadline) -> Record | None:
        """Have the plugin say under which id it has what was asked for before; None if it has nothing.

        The standard has no other way: the same request, for what is there already.
        """
        try:
            return self.make(record, place, doing, again=True, deadline=deadline)
        except errors.CapacityExceeded:
            return None
        except errors.DriverError as error:
            if error.clean:
                return None
            raise

    def _made(self, record: Record, place: Place, doing: str, deadline: Deadline) -> Held:
        wish = place.storage_class.wish
        if wish is not None:
            return self._plugin.create(record.name, record.size, wish, place.segment, deadline)
        self._plugin.publish(self.inline_place(doing).publication(record.name, record.size), deadline)
        return Held(record.name, record.size, ())

    def grow(self, plugin_id: str, size: int, place: Place, doing: str, deadline: Deadline) -> int:
        """Have a volume grown to so many bytes, and return that."""
        try:
            grown = self._plugin.expand(plugin_id, size, _wish(place, doing), deadline)
        except CallFailed as error:
            raise _said(error, doing, error.refused) from error
        except BadAnswer as error:
            raise errors.DriverError(f"{doing}: {error}") from error
        if grown != size:
            raise errors.DriverError(f"{doing}: the plugin grew it to {grown} bytes, not to exactly {size}")
        return grown


def _said(error: CallFailed, doing: str, clean: bool) -> errors.TonnageError:
    if error.no_room:
        return errors.CapacityExceeded(f"{doing}: {error}")
    return errors.DriverError(f"{doing}: {error}", clean=clean)


def _wish(place: Place, doing: str) -> Wish:
    wish = place.storage_class.wish
    if wish is None:
        raise errors.DriverError(f"{doing}: inline ephemeral volumes stay as they were made", clean=True)
    return wish
