# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder: those of the API."""

from tests.unit.api.conftest import client, cluster, member, project  # noqa: F401
