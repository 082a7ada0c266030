# SPDX-License-Identifier: Apache-2.0
"""Options in configuration files that nothing reads: slips of the pen, of which oslo.config says nothing.

Of a section that no part of Tonnage has nothing is said, as other programs may share the file, unless it is nearly
called like one. Backends' sections are known where an agent runs, by the options of their drivers.
"""

import difflib
import glob
import logging
import os
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from importlib import metadata

from oslo_config import cfg

from tonnage.capacity import failures

LOG = logging.getLogger(__name__)

#: Libraries whose options stand in Tonnage's configuration, as their entry points ``oslo.config.opts`` are called.
_LIBRARIES = (
    "cotyledon",
    "oslo.log",
    "oslo.messaging",
    "oslo.policy",
    "tonnage.keystone",
    "tonnage.middleware",
    "tonnage.nova",
    "tonnage.placement",
)

_DEFAULT = "DEFAULT"

#: How alike two names of sections have to be for one to be taken for the other.
_ALIKE = 0.8

_Names = dict[str, set[str]]


def warn(conf: cfg.ConfigOpts) -> None:
    """Log a warning for each; to be called when the process has registered all that it reads."""
    try:
        found = find(conf)
    except Exception as error:  # a plugin that is installed, used or not, may fail in any way
        LOG.warning("The names of options have not been checked: %s", failures.described(error))
        return
    for line in found:
        LOG.warning("%s", line)


def find(conf: cfg.ConfigOpts) -> list[str]:
    """Return a line for each, with the file and what may have been meant."""
    here = _registered(conf)
    read = [(file, _sections(file)) for file in _files(conf)]
    strange = [
        (file, section, name)
        for file, sections in read
        for section, names in sections.items()
        for name in names
        if _plain(name) not in here.get(_group(section), ())
    ]
    if not strange:
        return []
    # What other processes read of the same file is looked up only now: it takes a while.
    known = _known()
    for section, names in here.items():
        known.setdefault(section, set()).update(names)
    of_backends = {section for _, sections in read for section, names in sections.items() if "volume_driver" in names}
    return list(_lines(strange, known, of_backends - here.keys()))


def _lines(strange: Iterable[tuple[str, str, str]], known: _Names, of_backends: set[str]) -> Iterator[str]:
    for file, section, name in strange:
        beside = known.get(_group(section))
        if section.partition(":")[0] in of_backends or (beside is not None and _plain(name) in beside):
            continue
        said = f"[{section}] {name} in {file} has no effect"
        if beside is not None:
            yield f"{said}: there is no such option{_hint(name, beside, known)}"
        elif meant := _meant_section(section, name, known):
            yield f"{said}: there is no such section; is it [{meant}]?"


def _hint(name: str, beside: set[str], known: Mapping[str, set[str]]) -> str:
    """Return what may have been meant: an option of another section, or one beside it with nearly that name."""
    if elsewhere := sorted(section for section, names in known.items() if _plain(name) in names):
        return f"; there is one of that name in [{elsewhere[0]}]"
    if near := difflib.get_close_matches(_plain(name), beside, 1):
        return f"; is it {near[0]}?"
    return ""


def _meant_section(section: str, name: str, known: Mapping[str, set[str]]) -> str | None:
    """Return the section with nearly that name that has such an option, if there is one."""
    names = {each.lower(): each for each in known}
    near = [names[each] for each in difflib.get_close_matches(section.lower(), names, 1, _ALIKE)]
    return near[0] if near and _plain(name) in known[near[0]] else None


def _registered(conf: cfg.ConfigOpts) -> _Names:
    """Return what this process reads, by section."""
    sections = {_group(group): set(conf[group]) for group in conf.list_all_sections() if group in conf}
    return {**sections, _DEFAULT: set(conf)}


def _known() -> _Names:
    """Return all that a part of Tonnage or one of its libraries reads, under old names as well."""
    # It brings in every room, which most processes do without.
    from tonnage.cli import opts

    found: _Names = {}
    lists = [opts.list_opts()]
    for point in metadata.entry_points(group="oslo.config.opts"):
        if point.name in _LIBRARIES:
            lists.append(point.load()())
    for listed in lists:
        for group, options in listed:
            section = _group(str(getattr(group, "name", group) or _DEFAULT))
            for option in options:
                found.setdefault(section, set()).add(option.dest)
                for old in option.deprecated_opts:
                    found.setdefault(_group(old.group or section), set()).add(_plain(old.name or option.dest))
    # What stands for the section of any backend.
    found.pop("backend", None)
    return found


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


def _group(section: str) -> str:
    """Return the name of a section as oslo.config compares it."""
    return section if section == _DEFAULT else section.lower()


def _plain(name: str) -> str:
    return name.replace("-", "_")
