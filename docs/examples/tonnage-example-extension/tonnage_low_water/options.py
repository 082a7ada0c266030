# SPDX-License-Identifier: Apache-2.0
"""The options of the extension."""

from oslo_config import cfg


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options by their sections."""
    least = cfg.FloatOpt("least_change_gb", default=1.0, min=0.0, help="Record a mark that is lower by this.")
    return [("low_water", [least])]
