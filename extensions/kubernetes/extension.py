# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension ``kubernetes``."""

from tonnage.extension import Extension

EXTENSION = Extension(
    summary="capacity of the storage of Kubernetes clusters: extender, publisher, claims of pods",
    options="tonnage.extensions.kubernetes.publication.publisher_options:list_opts",
    tables="tonnage.extensions.kubernetes.ledger.tables",
    scheduler="tonnage.extensions.kubernetes.scheduler_parts:build",
)
