# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension ``kubernetes``."""

from tonnage.extension import Extension

EXTENSION = Extension(
    summary="capacity of the storage of Kubernetes clusters: extender, publisher, claims of pods",
    tables="tonnage.extensions.kubernetes.ledger.tables",
    scheduler="tonnage.extensions.kubernetes.scheduler_parts:build",
    options="tonnage.extensions.kubernetes.options:list_opts",
    api="tonnage.extensions.kubernetes.api.api_parts:build",
    listener="tonnage.extensions.kubernetes.extender.extender_server:build",
    metrics="tonnage.extensions.kubernetes.api.csi_metrics:ClaimSeries",
    policies="tonnage.extensions.kubernetes.api.policy_rules:list_rules",
)
