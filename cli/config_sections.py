# SPDX-License-Identifier: Apache-2.0
"""The text of configuration files by section, including sections and options that nothing has registered."""

import glob
import os

from oslo_config import cfg

#: The options of each section with their values as they are written.
Sections = dict[str, dict[str, object]]


def files(conf: cfg.ConfigOpts) -> list[str]:
    """Return the configuration files in the order in which they are read; a later one overrides an earlier one."""
    folders = [os.path.join(folder, "*.conf") for folder in conf.config_dir]
    return [*conf.config_file, *(file for pattern in folders for file in sorted(glob.glob(pattern)))]


def of_file(file: str) -> Sections:
    """Return the options of a file by section. Ignore an unreadable file, which causes an error elsewhere."""
    sections: Sections = {}
    try:
        cfg.ConfigParser(file, sections).parse()
    except (OSError, UnicodeDecodeError, cfg.ParseError):
        return {}
    return sections


def of_all(conf: cfg.ConfigOpts) -> Sections:
    """Return the options of all files by section."""
    merged: Sections = {}
    for file in files(conf):
        for section, options in of_file(file).items():
            merged.setdefault(section, {}).update(options)
    return merged
