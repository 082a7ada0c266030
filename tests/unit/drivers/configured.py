# SPDX-License-Identifier: Apache-2.0
"""Configurations for tests, read from real files."""

import textwrap
from pathlib import Path

from oslo_config import cfg


def conf(folder: Path, text: str) -> cfg.ConfigOpts:
    """Return the configuration from a file with this text."""
    path = folder / "tonnage.conf"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    conf = cfg.ConfigOpts()
    conf(["--config-file", str(path)], project="tonnage", version="0")
    return conf
