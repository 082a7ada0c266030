# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension ``page``."""

from tonnage.extension import Extension

EXTENSION = Extension(
    summary="the web page",
)
