# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension ``page``."""

from tonnage.extension import Extension

EXTENSION = Extension(
    summary="the web page",
    api="tonnage.extensions.page.api_parts:build",
    web_page="/page/",
    policies="tonnage.extensions.page.policy_rules:list_rules",
)
