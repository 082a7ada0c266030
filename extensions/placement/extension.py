# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension ``placement``."""

from tonnage.extension import Extension

EXTENSION = Extension(
    summary="volumes as allocations in OpenStack Placement, and quotas that count usage from there",
)
