# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension ``cinder``."""

from tonnage.extension import Extension

EXTENSION = Extension(
    summary="Tonnage as Cinder's scheduler and quota driver, and the watch beside Cinder's own",
    options="tonnage.extensions.cinder.watch.shadow_options:list_opts",
    tables="tonnage.extensions.cinder.ledger.tables",
    commands={
        "cinder": "tonnage.extensions.cinder.commands.cinder:Cinder",
        "cinder quotas": "tonnage.extensions.cinder.commands.cinder_quotas:Quotas",
    },
)
