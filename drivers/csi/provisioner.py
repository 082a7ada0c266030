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
        #: Whether the plugin lists its volumes.
        self.can_list = False
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

        ``may_exist`` is true if an earlier request may have created the volume already. Where the plugin gives no
        reason for its failure, its list of volumes is asked whether the volume exists.
        """
        # The record is written before the call, so that a crash in between loses no volume.
        self._records.save(record)
        with self._inventory.track_creation(record):
            try:
                plugin_volume = self._call_plugin(record, pool, context, deadline)
            except CallFailed as error:
                clean = error.volume_absent if may_exist else error.refused
                if not clean and error.is_answer:
                    return self._repeat(record, pool, context, deadline)
                raise self._failure(record, error, context, clean) from error
            except InvalidResponse as error:
                raise errors.OutcomeUnknown(f"{context}: {error}") from error
            return self._save_created(record, plugin_volume, pool, context, deadline)

    def _repeat(self, record: VolumeRecord, pool: ClassPool, context: str, deadline: Deadline) -> VolumeRecord:
        """Find the volume by another request after one whose answer does not tell whether the volume exists."""
        try:
            plugin_volume = self._call_plugin(record, pool, context, deadline)
        except CallFailed as error:
            clean = error.volume_absent or (error.is_answer and self._is_absent(record, pool, deadline))
            raise self._failure(record, error, context, clean) from error
        except InvalidResponse as error:
            raise errors.OutcomeUnknown(f"{context}: {error}") from error
        return self._save_created(record, plugin_volume, pool, context, deadline)

    def _failure(self, record: VolumeRecord, error: CallFailed, context: str, clean: bool) -> errors.TonnageError:
        """Return the error of a failed create; ``clean`` if the volume does not exist."""
        if clean:
            self._records.remove(record)
        elif not error.is_other_volume:
            return errors.OutcomeUnknown(f"{context}: {error}")
        return _operation_error(error, context, clean)

    def _save_created(
        self, record: VolumeRecord, plugin_volume: PluginVolume, pool: ClassPool, context: str, deadline: Deadline
    ) -> VolumeRecord:
        """Save the id of the volume.

        Raises DriverError for one of another size or segment, of which the latter is deleted, and for one that has
        been managed as another volume meanwhile.
        """
        owner = self._records.find_by_plugin_id(plugin_volume.id)
        if owner is not None and (owner.pool, owner.id) != (record.pool, record.id):
            self._records.remove(record)
            raise errors.DriverError(
                f"{context}: the plugin's volume {plugin_volume.id} is volume {owner.id} in pool {owner.pool}",
                clean=True,
            )
        created = replace(record, plugin_id=plugin_volume.id, size=plugin_volume.size or record.size)
        self._records.save(created)
        if not pool.can_reach(plugin_volume.segments):
            made_in = " or ".join(str(segment) for segment in plugin_volume.segments)
            problem = f"{context}: the plugin made it in segment {made_in}, not in {pool.segment_label}"
            try:
                self.delete(created, f"{problem}; it could not be deleted", deadline)
            except errors.DriverError as error:
                # The volume stays in error, and its owner deletes it.
                raise errors.DriverError(error.message) from error
            raise errors.DriverError(f"{problem}; it is deleted again", clean=True)
        if created.size != record.size:
            raise errors.DriverError(f"{context}: the plugin made {created.size} bytes, not exactly {record.size}")
        return created

    def _is_absent(self, record: VolumeRecord, pool: ClassPool, deadline: Deadline) -> bool:
        if record.inline or not self.can_list:
            return False
        try:
            return self._inventory.shows_absence(record, pool, deadline)
        except (CallFailed, InvalidResponse):
            return False

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
        except CallFailed as error:
            if error.refused:
                raise errors.DriverError(f"{context}: {error}") from error
            raise errors.OutcomeUnknown(f"{context}: {error}") from error
        except InvalidResponse as error:
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
            if not error.clean:
                raise
            return None

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
            raise _outcome_error(error, context) from error
        except InvalidResponse as error:
            raise errors.DriverError(f"{context}: {error}") from error
        if new_size != size:
            raise errors.DriverError(f"{context}: the plugin grew it to {new_size} bytes, not to exactly {size}")
        return new_size


def _outcome_error(error: CallFailed, context: str) -> errors.TonnageError:
    """Return the error of a call that had no effect, if the plugin has refused it, or an unknown one."""
    if error.refused:
        return _operation_error(error, context, clean=True)
    return errors.OutcomeUnknown(f"{context}: {error}")


def _operation_error(error: CallFailed, context: str, clean: bool) -> errors.TonnageError:
    if error.out_of_capacity:
        return errors.CapacityExceeded(f"{context}: {error}")
    return errors.DriverError(f"{context}: {error}", clean=clean)


def _require_settings(pool: ClassPool, context: str) -> VolumeSettings:
    settings = pool.storage_class.settings
    if settings is None:
        raise errors.DriverError(f"{context}: inline ephemeral volumes stay as they were made", clean=True)
    return settings
