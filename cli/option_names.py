# SPDX-License-Identifier: Apache-2.0
"""The names of all options of Tonnage and its libraries, including deprecated names.

Collecting the names imports every package, which takes a second and 60 MB. So a file lists the usual names, and
``make sample-config`` regenerates it. The names are collected only if the file lacks the name of an option.
"""

import contextlib
from collections.abc import Mapping
from importlib import metadata, resources

#: Libraries with options in Tonnage's configuration, by the names of their entry points ``oslo.config.opts``.
LIBRARIES = (
    "cotyledon",
    "oslo.log",
    "oslo.messaging",
    "oslo.policy",
    "tonnage.keystone",
    "tonnage.middleware",
    "tonnage.nova",
    "tonnage.placement",
)

DEFAULT = "DEFAULT"

Names = dict[str, set[str]]


def from_file() -> Names:
    """Return the names in the file by section."""
    sections: Names = {}
    names: set[str] = set()
    for line in resources.files(__package__).joinpath("option_names.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            names = sections.setdefault(line.strip("[]"), set())
        else:
            names.add(line)
    return sections


def collect() -> Names:
    """Return all names by section, including options of installed plug-ins. A plug-in can raise any error.

    Options of a library that is not installed are left out.
    """
    from tonnage.cli import opts

    sections: Names = {}
    lists = [opts.list_opts()]
    for point in metadata.entry_points(group="oslo.config.opts"):
        if point.name in LIBRARIES:
            with contextlib.suppress(ModuleNotFoundError):
                lists.append(point.load()())
    for listed in lists:
        for group, options in listed:
            section = section_name(str(getattr(group, "name", group) or DEFAULT))
            for option in options:
                sections.setdefault(section, set()).add(option.dest)
                for old in option.deprecated_opts:
                    sections.setdefault(section_name(old.group or section), set()).add(
                        normalized(old.name or option.dest)
                    )
    # The placeholder for sections of backends.
    sections.pop("backend", None)
    return sections


def section_name(section: str) -> str:
    """Return the name of a section in the form that oslo.config compares."""
    return section if section == DEFAULT else section.lower()


def normalized(name: str) -> str:
    """Return the name of an option in the form that oslo.config compares."""
    return name.replace("-", "_")


def to_text(names: Mapping[str, set[str]]) -> str:
    """Return the content of the file for these names."""
    return "".join(
        f"[{section}]\n" + "".join(f"{name}\n" for name in sorted(names[section])) for section in sorted(names)
    )


if __name__ == "__main__":
    print(to_text(collect()), end="")
