# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder: those of the page, and those of schedulers."""

from tests.unit.extensions.page.conftest import client, cluster, member, project  # noqa: F401
from tests.unit.scheduler.conftest import *  # noqa: F403
