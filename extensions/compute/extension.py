# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension ``compute``."""

from tonnage.extension import Extension

EXTENSION = Extension(
    summary="the hosts of instances, asked of OpenStack Nova, for volumes near an instance",
    options="tonnage.extensions.compute.nova:list_opts",
    check="tonnage.extensions.compute.scheduler_parts:validate",
    scheduler="tonnage.extensions.compute.scheduler_parts:build",
)
