# SPDX-License-Identifier: Apache-2.0
"""A driver of cinder-backup whose backups have no content, and so take no time. Runs with Cinder's Python."""

from typing import Any

from cinder import interface
from cinder.backup import driver


@interface.backupdriver
class EmptyBackupDriver(driver.BackupDriver):  # type: ignore[misc]
    """Stores nothing."""

    def backup(self, backup: Any, volume_file: Any, backup_metadata: bool = False) -> None:
        """Do nothing."""

    def restore(self, backup: Any, volume_id: str, volume_file: Any, volume_is_new: bool) -> None:
        """Do nothing: a volume is as empty as its backup."""

    def delete_backup(self, backup: Any) -> None:
        """Do nothing."""

    def check_for_setup_error(self) -> None:
        """Accept the configuration."""
