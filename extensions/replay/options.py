# SPDX-License-Identifier: Apache-2.0
"""The option of the log of decisions."""

from oslo_config import cfg

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "decision_log",
        sample_default="/var/log/tonnage/decisions-${host}.jsonl",
        help="File that each decision is appended to as a line, with its inputs, for 'tonnage replay'. Each "
        "scheduler needs one of its own. It can be moved away at any time; another is begun then. Without this option "
        "decisions are not recorded.",
    ),
]


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options by section."""
    return [("DEFAULT", list(OPTIONS))]
