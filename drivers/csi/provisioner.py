# SPDX-License-Identifier: Apache-2.0
"""Creation, extension and deletion of volumes by a plugin, with their records.

``context`` is the beginning of the messages of errors.
"""

import contextlib
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

        ``may_exist`` is true if an earlier request may have created the volume already. Then no failure of this request
        tells that the volume does not exist: only the plugin's list does. Raises
        :class:`~tonnage.capacity.errors.Conflict` if the plugin has another volume of that name.
        """
        # The record is written before the call, so that a crash in between loses no volume.
        self._records.save(record)
        try:
            plugin_volume = self._call_plugin(record, pool, context, deadline)
        except CallFailed as error:
            if error.is_other_volume:
                raise self._conflict(record, error, context, deadline) from error
            if error.refused and not may_exist:
                raise self._clean_failure(record, error, context) from error
            if not error.is_answer:
                raise errors.OutcomeUnknown(f"{context}: {error}") from error
            if may_exist:
                if self._is_absent(record, pool, context, deadline):
                    raise self._clean_failure(record, error, context) from error
                raise errors.OutcomeUnknown(f"{context}: {error}; an earlier call may have made it") from error
        except InvalidResponse as error:
            raise errors.OutcomeUnknown(f"{context}: {error}") from error
        else:
            return self._save_created(record, plugin_volume, pool, context, deadline)
        return self.create(record, pool, context, may_exist=True, deadline=deadline)

    def _clean_failure(self, record: VolumeRecord, error: CallFailed, context: str) -> errors.TonnageError:
        """Return the error of a failed create after which the volume does not exist."""
        self._records.remove(record)
        return _clean_error(error, context)

    def _conflict(
        self, record: VolumeRecord, error: CallFailed, context: str, deadline: Deadline
    ) -> errors.TonnageError:
        """Return the error of a create whose name another volume has; record its id, so that it can be deleted.

        By the standard the same request must not be repeated.
        """
        try:
            plugin_volume = self._find_named(record, deadline)
            if plugin_volume is None and self.can_list:
                plugin_volume = self._inventory.find_conflicting(record, deadline)
        except (CallFailed, InvalidResponse) as failure:
            return errors.OutcomeUnknown(f"{context}: {error}, and its id is not known: {failure}")
        if plugin_volume is None:
            self._records.save(replace(record, has_conflict=True))
            return errors.Conflict(
                f"{context}: {error}; the plugin's list does not tell the id of the volume that it has as "
                f"{record.name}: delete that with the plugin's own tools, or restore the parameters of the class"
            )
        self._refuse_managed(record, plugin_volume, context)
        self._records.save(_answered(record, plugin_volume))
        return errors.Conflict(f"{context}: {error}; the plugin has it as {plugin_volume.id}, with other properties")

    def _find_named(self, record: VolumeRecord, deadline: Deadline) -> PluginVolume | None:
        """Return the plugin's volume if its id tells that it is the recorded one."""
        if record.inline:
            return PluginVolume(record.name, record.size, ())
        return self._inventory.find_named(record, deadline) if self.can_list else None

    def _refuse_managed(self, record: VolumeRecord, plugin_volume: PluginVolume, context: str) -> None:
        """Raise DriverError, and remove the record, if the volume has been managed as another one meanwhile."""
        owner = self._records.find_by_plugin_id(plugin_volume.id)
        if owner is not None and (owner.pool, owner.id) != (record.pool, record.id):
            self._records.remove(record)
            raise errors.DriverError(
                f"{context}: the plugin's volume {plugin_volume.id} is volume {owner.id} in pool {owner.pool}",
                clean=True,
            )

    def _save_created(
        self, record: VolumeRecord, plugin_volume: PluginVolume, pool: ClassPool, context: str, deadline: Deadline
    ) -> VolumeRecord:
        """Save the id of the volume.

        Raises DriverError for one of another size or segment, of which the latter is deleted, and for one that has
        been managed as another volume meanwhile.
        """
        self._refuse_managed(record, plugin_volume, context)
        created = _answered(record, plugin_volume)
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

    def _is_absent(self, record: VolumeRecord, pool: ClassPool, context: str, deadline: Deadline) -> bool:
        """Return whether the plugin does not have the volume, or an inline one any more."""
        try:
            if record.inline:
                self._unpublish(record, context, deadline)
                return True
            return self.can_list and self._inventory.shows_absence(record, pool, deadline)
        except (CallFailed, InvalidResponse):
            return False

    def delete(self, record: VolumeRecord, context: str, deadline: Deadline) -> None:
        """Delete a volume that the plugin has created, and its record."""
        try:
            if record.inline:
                self._unpublish(record, context, deadline)
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
        the request; some plugins make ids of names.
        """
        try:
            return self.create(record, pool, context, may_exist=True, deadline=deadline)
        except errors.TonnageError:
            saved = self._records.find(record.pool, record.id)
            if saved is None or saved.plugin_id is not None:
                return saved
            named = self._find_unclaimed(record, deadline)
            if named is None:
                raise
            return _answered(record, named)

    def _find_unclaimed(self, record: VolumeRecord, deadline: Deadline) -> PluginVolume | None:
        """Return the plugin's volume whose id tells that it is the recorded one, unless it was managed as another."""
        with contextlib.suppress(CallFailed, InvalidResponse):
            named = self._find_named(record, deadline)
            if named is not None and self._records.find_by_plugin_id(named.id) is None:
                return named
        return None

    def _unpublish(self, record: VolumeRecord, context: str, deadline: Deadline) -> None:
        publication = self.inline_folder(context).publication(record.name, record.size)
        self._plugin.unpublish(record.name, publication.target, deadline)

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
            raise _extend_error(error, context) from error
        except InvalidResponse as error:
            raise errors.DriverError(f"{context}: {error}") from error
        if new_size != size:
            raise errors.DriverError(f"{context}: the plugin grew it to {new_size} bytes, not to exactly {size}")
        return new_size


def _answered(record: VolumeRecord, plugin_volume: PluginVolume) -> VolumeRecord:
    """Return the record with the id and the size of the plugin's volume."""
    size = plugin_volume.size or record.size
    return replace(record, plugin_id=plugin_volume.id, size=size, earlier_ids=frozenset(), has_conflict=False)


def _extend_error(error: CallFailed, context: str) -> errors.TonnageError:
    """Return the error of an extend: of one without effect, if the plugin has refused it, else of an unknown one.

    A call that did not reach the plugin is repeated, because no other pool can extend the volume.
    """
    if error.refused and error.is_answer:
        return _clean_error(error, context)
    return errors.OutcomeUnknown(f"{context}: {error}")


def _clean_error(error: CallFailed, context: str) -> errors.TonnageError:
    if error.out_of_capacity:
        return errors.CapacityExceeded(f"{context}: {error}")
    return errors.DriverError(f"{context}: {error}", clean=True)


def _require_settings(pool: ClassPool, context: str) -> VolumeSettings:
    settings = pool.storage_class.settings
    if settings is None:
        raise errors.DriverError(f"{context}: inline ephemeral volumes stay as they were made", clean=True)
    return settings
