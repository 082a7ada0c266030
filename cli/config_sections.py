# SPDX-License-Identifier: Apache-2.0
"""The text of configuration files by section, including sections and options that nothing has registered."""

import glob
import os
import re
from collections.abc import Iterator

from oslo_config import cfg

#: The options of each section with their values as they are written.
Sections = dict[str, dict[str, object]]

_HEADER = re.compile(r"\[(.+)\]\s*")
_ASSIGNMENT = re.compile(r"([^\s#;\[=:][^=:]*?)\s*[=:]\s*(\S.*?)\s*")
_QUOTES = ("'", '"')

#: A quote that no backslash makes a part of a text in JSON.
_DOUBLE_QUOTE = re.compile(r'(?<!\\)"')


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


def doubtful_quotes(file: str) -> Iterator[tuple[str, str, str]]:
    """Yield section, name and problem of each option of a file whose value has quotes that oslo.config misreads.

    It removes a quote at the beginning and the same quote at the end, also where these do not belong together.
    """
    section = "DEFAULT"
    try:
        with open(file, encoding="utf-8") as lines:
            for line in lines:
                if header := _HEADER.fullmatch(line):
                    section = header[1]
                elif assignment := _ASSIGNMENT.fullmatch(line):
                    name, value = assignment.groups()
                    quote = value[:1]
                    if quote in _QUOTES and value[1:].endswith(quote) and quote in value[1:-1]:
                        yield section, name, f"is read as {value[1:-1]}: its first and its last quote are removed"
                    elif len(_DOUBLE_QUOTE.findall(value)) % 2:
                        yield section, name, f"is read as {value}, with a quote that nothing closes"
    except (OSError, UnicodeDecodeError):
        return


def of_all(conf: cfg.ConfigOpts) -> Sections:
    """Return the options of all files by section."""
    merged: Sections = {}
    for file in files(conf):
        for section, options in of_file(file).items():
            merged.setdefault(section, {}).update(options)
    return merged
