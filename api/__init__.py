# SPDX-License-Identifier: Apache-2.0
"""The REST application.

Floors from the ground up: schemas, http, auth, context and monitoring and openapi, resources,
extension_parts, its modules.
"""
