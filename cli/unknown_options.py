# SPDX-License-Identifier: Apache-2.0
"""Detection of text in configuration files that has no effect, or another than it seems.

These are unknown options, for example misspelled ones, which oslo.config ignores; sections of backends that no list
enables; options of filters and weighers that are not enabled; and quotes. Unknown sections are not reported, because
other programs may share the file, unless their name is similar to a known one. The sections of backends are checked in
agents only, where the options of their drivers are registered.
"""

import difflib
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from oslo_config import cfg

from tonnage.capacity import plugin_errors
from tonnage.cli import config_sections, option_names
from tonnage.cli.config_sections import Sections
from tonnage.cli.option_names import Names

LOG = logging.getLogger(__name__)

#: Minimum similarity of a section's name and a known one for a suggestion, from 0 to 1.
_MIN_SIMILARITY = 0.8


def warn(conf: cfg.ConfigOpts) -> None:
    """Log a warning for each line of :func:`find`. Call it after the process has registered all its options."""
    try:
        lines = find(conf)
    except plugin_errors.CAUGHT as error:  # any installed plug-in can raise any error
        LOG.warning("The names of options have not been checked: %s", plugin_errors.described(error))
        return
    for line in lines:
        LOG.warning("%s", line)


def find(conf: cfg.ConfigOpts) -> list[str]:
    """Return a line for each text without effect, with its file and a suggestion."""
    registered, usual = _registered(conf), option_names.from_file()
    read = [(file, config_sections.of_file(file)) for file in config_sections.files(conf)]
    of_backends = {section for _, sections in read for section, names in sections.items() if "volume_driver" in names}
    of_backends = {section for section in of_backends if option_names.section_name(section) not in registered}
    unread = [
        (file, section, name)
        for file, sections in read
        for section, names in sections.items()
        if section.partition(":")[0] not in of_backends
        for name in names
        if not (_has(registered, section, name) or _has(usual, section, name))
    ]
    quotes = [
        f"[{section}] {name} in {file} {problem}"
        for file, sections in read
        for section, name, problem in config_sections.doubtful_quotes(file)
        if section in of_backends or _has(registered, section, name) or _has(usual, section, name)
    ]
    known = [*_disabled_backends(conf, read, of_backends), *_disabled_plugins(conf, registered, read), *quotes]
    if not unread:
        return known
    # Options of other processes and their plug-ins are collected only now, because that is slow.
    all_names = option_names.collect()
    for section, names in [*registered.items(), *usual.items()]:
        all_names.setdefault(section, set()).update(names)
    return [*_lines(unread, all_names), *known]


def _disabled_backends(
    conf: cfg.ConfigOpts, read: Sequence[tuple[str, Sections]], of_backends: Collection[str]
) -> Iterator[str]:
    """Yield a line for each section of a backend that ``enabled_backends`` does not name, if it names any."""
    enabled = {option_names.section_name(name) for name in conf.enabled_backends} if "enabled_backends" in conf else ()
    for file, sections in read if enabled else ():
        for section in sections:
            if section in of_backends and option_names.section_name(section) not in enabled:
                yield f"[{section}] in {file} has no effect: [DEFAULT] enabled_backends does not name {section}"


def _disabled_plugins(conf: cfg.ConfigOpts, registered: Names, read: Sequence[tuple[str, Sections]]) -> Iterator[str]:
    """Yield a line for each option that only filters and weighers read which are not enabled, in a scheduler."""
    from tonnage.scheduler.configuration import plugins

    if "scheduler_default_filters" not in conf:
        return
    readers = plugins.disabled_readers(conf)
    for file, sections in read:
        for section, names in sections.items():
            for name in names:
                key = option_names.section_name(section), option_names.normalized(name)
                if key in readers and not _has(registered, section, name):
                    plugin, setting = readers[key]
                    yield f"[{section}] {name} in {file} has no effect: {plugin} is not among {setting}"


def _lines(unread: Iterable[tuple[str, str, str]], all_names: Names) -> Iterator[str]:
    for file, section, name in unread:
        if _has(all_names, section, name):
            continue
        siblings = all_names.get(option_names.section_name(section))
        problem = f"[{section}] {name} in {file} has no effect"
        if siblings is not None:
            yield f"{problem}: there is no such option{_hint(name, siblings, all_names)}"
        elif meant := _meant_section(section, name, all_names):
            yield f"{problem}: there is no such section; is it [{meant}]?"


def _has(sections: Names, section: str, name: str) -> bool:
    return option_names.normalized(name) in sections.get(option_names.section_name(section), ())


def _hint(name: str, siblings: set[str], all_names: Mapping[str, set[str]]) -> str:
    """Return a suggestion: an option of the same name in another section, or of a similar name among ``siblings``."""
    if elsewhere := sorted(section for section, names in all_names.items() if option_names.normalized(name) in names):
        return f"; there is one of that name in [{elsewhere[0]}]"
    if near := difflib.get_close_matches(option_names.normalized(name), siblings, 1):
        return f"; is it {near[0]}?"
    return ""


def _meant_section(section: str, name: str, all_names: Mapping[str, set[str]]) -> str | None:
    """Return the section with a similar name that has such an option, None if there is none."""
    names = {candidate.lower(): candidate for candidate in all_names}
    near = [names[match] for match in difflib.get_close_matches(section.lower(), names, 1, _MIN_SIMILARITY)]
    return near[0] if near and option_names.normalized(name) in all_names[near[0]] else None


def _registered(conf: cfg.ConfigOpts) -> Names:
    """Return the names of the options that this process has registered, by section."""
    groups = {option_names.section_name(name): name for name in conf}
    sections = {option_names.section_name(section) for section in conf.list_all_sections()}
    return {
        **{section: set(conf[groups[section]]) for section in sections & groups.keys()},
        option_names.DEFAULT: set(conf),
    }
