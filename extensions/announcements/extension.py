# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension ``announcements``."""

from tonnage.extension import Extension

EXTENSION = Extension(
    summary="announcements of capacity on the message bus, and alerts to web hooks, mail and chats",
    options="tonnage.extensions.announcements.options:list_opts",
    check="tonnage.extensions.announcements.announcer:validate",
    scheduler="tonnage.extensions.announcements.scheduler_parts:build",
    has_transaction_hooks=True,
    tables="tonnage.extensions.announcements.tables",
)
