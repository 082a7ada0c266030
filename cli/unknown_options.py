# SPDX-License-Identifier: Apache-2.0
"""Options in configuration files that nothing reads: slips of the pen, of which oslo.config says nothing.

Of a section that no part of Tonnage has nothing is said, as other programs may share the file, unless it is nearly
called like one. Backends' sections are known where an agent runs, by the options of their drivers.
"""

import difflib
import glob
import logging
import os
from collections.abc import Iterable, Iterator, Mapping

from oslo_config import cfg

from tonnage.capacity import plugin_errors
from tonnage.cli import option_names
from tonnage.cli.option_names import Names

LOG = logging.getLogger(__name__)

#: How alike two names of sections have to be for one to be taken for the other.
_ALIKE = 0.8


def warn(conf: cfg.ConfigOpts) -> None:
    """Log a warning for each; to be called when the process has registered all that it reads."""
    try:
        found = find(conf)
    except plugin_errors.CAUGHT as error:  # a plugin that is installed, used or not, may fail in any way
        LOG.warning("The names of options have not been checked: %s", plugin_errors.described(error))
        return
    for line in found:
        LOG.warning("%s", line)


def find(conf: cfg.ConfigOpts) -> list[str]:
    """Return a line for each, with the file and what may have been meant."""
    here, usual = _registered(conf), option_names.of_file()
    read = [(file, _sections(file)) for file in _files(conf)]
    of_backends = {section for _, sections in read for section, names in sections.items() if "volume_driver" in names}
    of_backends -= here.keys()
    strange = [
        (file, section, name)
        for file, sections in read
        for section, names in sections.items()
        if section.partition(":")[0] not in of_backends
        for name in names
        if not (_has(here, section, name) or _has(usual, section, name))
    ]
    if not strange:
        return []
    # What else is read of the same file, by plugins of other processes say, is looked up only now: it takes a while.
    known = option_names.everywhere()
    for section, names in here.items():
        known.setdefault(section, set()).update(names)
    return list(_lines(strange, known))


def _lines(strange: Iterable[tuple[str, str, str]], known: Names) -> Iterator[str]:
    for file, section, name in strange:
        if _has(known, section, name):
            continue
        beside = known.get(option_names.section_name(section))
        said = f"[{section}] {name} in {file} has no effect"
        if beside is not None:
            yield f"{said}: there is no such option{_hint(name, beside, known)}"
        elif meant := _meant_section(section, name, known):
            yield f"{said}: there is no such section; is it [{meant}]?"


def _has(known: Names, section: str, name: str) -> bool:
    return option_names.plain(name) in known.get(option_names.section_name(section), ())


def _hint(name: str, beside: set[str], known: Mapping[str, set[str]]) -> str:
    """Return what may have been meant: an option of another section, or one beside it with nearly that name."""
    if elsewhere := sorted(section for section, names in known.items() if option_names.plain(name) in names):
        return f"; there is one of that name in [{elsewhere[0]}]"
    if near := difflib.get_close_matches(option_names.plain(name), beside, 1):
        return f"; is it {near[0]}?"
    return ""


def _meant_section(section: str, name: str, known: Mapping[str, set[str]]) -> str | None:
    """Return the section with nearly that name that has such an option, if there is one."""
    names = {each.lower(): each for each in known}
    near = [names[each] for each in difflib.get_close_matches(section.lower(), names, 1, _ALIKE)]
    return near[0] if near and option_names.plain(name) in known[near[0]] else None


def _registered(conf: cfg.ConfigOpts) -> Names:
    """Return what this process reads, by section."""
    sections = {
        option_names.section_name(group): set(conf[group]) for group in conf.list_all_sections() if group in conf
    }
    return {**sections, option_names.DEFAULT: set(conf)}


def _files(conf: cfg.ConfigOpts) -> list[str]:
    folders = [os.path.join(folder, "*.conf") for folder in conf.config_dir]
    return [*conf.config_file, *(file for pattern in folders for file in sorted(glob.glob(pattern)))]


def _sections(file: str) -> dict[str, dict[str, object]]:
    """Return the options of a file by section; of one that cannot be read something else says so."""
    sections: dict[str, dict[str, object]] = {}
    try:
        cfg.ConfigParser(file, sections).parse()
    except (OSError, UnicodeDecodeError, cfg.ParseError):
        return {}
    return sections
