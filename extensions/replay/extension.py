# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension ``replay``."""

from tonnage.extension import Extension

EXTENSION = Extension(
    summary="the log of decisions, and its replay with other rules",
    options="tonnage.extensions.replay.options:list_opts",
    scheduler="tonnage.extensions.replay.scheduler_parts:build",
    commands={"replay": "tonnage.extensions.replay.replay_command:Replay"},
)
