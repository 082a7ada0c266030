# SPDX-License-Identifier: Apache-2.0
"""Creation, extension and deletion of volumes by a plugin, with their records.

``context`` is the beginning of the messages of errors.
"""

from dataclasses import replace

from tonnage.capacity import errors
from tonnage.drivers.csi.class_pools import ClassPool
from tonnage.drivers.csi.connection import CallFailed, Deadline
from tonnage.drivers.csi.ephemeral_volumes import InlineFolder
from tonnage.drivers.csi.inventory import Inventory
from tonnage.drivers.csi.plugin import InvalidResponse, Plugin, PluginVolume
from tonnage.drivers.csi.storage_class_config import VolumeSettings
from tonnage.drivers.csi.volume_records import VolumeRecord, VolumeRecords


class VolumeProvisioner:
    """Creates, extends and deletes volumes of a plugin.

    All methods raise :class:`~tonnage.capacity.errors.CapacityExceeded` where the plugin lacks capacity, and
    :class:`~tonnage.capacity.errors.DriverError` for other failures.
    """

    def __init__(
        self, plugin: Plugin, inventory: Inventory, records: VolumeRecords, inline_folder: InlineFolder | None
    ) -> None:
        self._plugin = plugin
        self._inline_folder = inline_folder
        self._inventory = inventory
        self._records = records

    def inline_folder(self, context: str) -> InlineFolder:
        """Return the folder in which inline ephemeral volumes are published."""
        if self._inline_folder is None:
            raise errors.DriverError(
                f"{context}: inline ephemeral volumes are made by their nodes, and csi_ephemeral_folder is "
                "not set here",
                clean=True,
            )
        return self._inline_folder

    def create(
        self, record: VolumeRecord, pool: ClassPool, context: str, may_exist: bool, deadline: Deadline
    ) -> VolumeRecord:
        """Create the recorded volume, or find it; return its record with the plugin's id.

        ``may_exist`` is true if an earlier request may have created the volume already.
        """
        with self._inventory.track_creation(record):
            # The record is written before the call, so that a crash in between loses no volume.
            self._records.save(record)
            try:
                plugin_volume = self._call_plugin(record, pool, context, deadline)
            except CallFailed as error:
                clean = error.volume_absent if may_exist else error.refused
                if clean:
                    self._records.remove(record)
                raise _operation_error(error, context, clean) from error
            except InvalidResponse as error:
                raise errors.DriverError(f"{context}: {error}") from error
            created = replace(record, plugin_id=plugin_volume.id, size=plugin_volume.size or record.size)
            self._records.save(created)
        if created.size != record.size:
            raise errors.DriverError(f"{context}: the plugin made {created.size} bytes, not exactly {record.size}")
        return created

    def delete(self, record: VolumeRecord, context: str, deadline: Deadline) -> None:
        """Delete a volume that the plugin has created, and its record."""
        try:
            if record.inline:
                inline_folder = self.inline_folder(context)
                self._plugin.unpublish(
                    record.name, inline_folder.publication(record.name, record.size).target, deadline
                )
            elif record.plugin_id is not None:
                self._plugin.delete(record.plugin_id, deadline)
        except (CallFailed, InvalidResponse) as error:
            raise errors.DriverError(f"{context}: {error}") from error
        self._records.remove(record)

    def find(self, record: VolumeRecord, pool: ClassPool, context: str, deadline: Deadline) -> VolumeRecord | None:
        """Return the record of a volume that was requested before, with the plugin's id.

        Returns None if the plugin does not have the volume. The standard has no other way to find the id than to repeat
        the request.
        """
        try:
            return self.create(record, pool, context, may_exist=True, deadline=deadline)
        except errors.CapacityExceeded:
            return None
        except errors.DriverError as error:
            if error.clean:
                return None
            raise

    def _call_plugin(self, record: VolumeRecord, pool: ClassPool, context: str, deadline: Deadline) -> PluginVolume:
        settings = pool.storage_class.settings
        if settings is not None:
            return self._plugin.create(record.name, record.size, settings, pool.segment, deadline)
        self._plugin.publish(self.inline_folder(context).publication(record.name, record.size), deadline)
        return PluginVolume(record.name, record.size, ())

    def extend(self, plugin_id: str, size: int, pool: ClassPool, context: str, deadline: Deadline) -> int:
        """Extend a volume to ``size`` bytes, and return that size."""
        try:
            new_size = self._plugin.expand(plugin_id, size, _require_settings(pool, context), deadline)
        except CallFailed as error:
            raise _operation_error(error, context, error.refused) from error
        except InvalidResponse as error:
            raise errors.DriverError(f"{context}: {error}") from error
        if new_size != size:
            raise errors.DriverError(f"{context}: the plugin grew it to {new_size} bytes, not to exactly {size}")
        return new_size


def _operation_error(error: CallFailed, context: str, clean: bool) -> errors.TonnageError:
    if error.out_of_capacity:
        return errors.CapacityExceeded(f"{context}: {error}")
    return errors.DriverError(f"{context}: {error}", clean=clean)


def _require_settings(pool: ClassPool, context: str) -> VolumeSettings:
    settings = pool.storage_class.settings
    if settings is None:
        raise errors.DriverError(f"{context}: inline ephemeral volumes stay as they were made", clean=True)
    return settings
