# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder: those of schedulers."""

from tests.unit.scheduler.conftest import *  # noqa: F403
