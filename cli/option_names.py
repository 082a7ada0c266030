# SPDX-License-Identifier: Apache-2.0
"""The names of all options that some part of Tonnage or one of its libraries reads, old names included.

To ask them all brings in every room, which takes a second and 60 MB that most processes do without. So those that there
usually are stand in a file, which ``make sample-config`` writes anew. What is missing there is found the slow way.
"""

from collections.abc import Mapping
from importlib import metadata, resources

#: Libraries whose options stand in Tonnage's configuration, as their entry points ``oslo.config.opts`` are called.
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


def of_file() -> Names:
    """Return the names by section, as far as the file has them."""
    found: Names = {}
    names: set[str] = set()
    for line in resources.files(__package__).joinpath("option_names.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            names = found.setdefault(line.strip("[]"), set())
        else:
            names.add(line)
    return found


def everywhere() -> Names:
    """Return the names by section, those of plugins that are installed included, which may fail in any way."""
    from tonnage.cli import opts

    found: Names = {}
    lists = [opts.list_opts()]
    for point in metadata.entry_points(group="oslo.config.opts"):
        if point.name in LIBRARIES:
            lists.append(point.load()())
    for listed in lists:
        for group, options in listed:
            section = section_name(str(getattr(group, "name", group) or DEFAULT))
            for option in options:
                found.setdefault(section, set()).add(option.dest)
                for old in option.deprecated_opts:
                    found.setdefault(section_name(old.group or section), set()).add(plain(old.name or option.dest))
    # What stands for the section of any backend.
    found.pop("backend", None)
    return found


def section_name(section: str) -> str:
    """Return the name of a section as oslo.config compares it."""
    return section if section == DEFAULT else section.lower()


def plain(name: str) -> str:
    """Return the name of an option as oslo.config compares it."""
    return name.replace("-", "_")


def text(names: Mapping[str, set[str]]) -> str:
    """Return what the file has in it."""
    return "".join(
        f"[{section}]\n" + "".join(f"{name}\n" for name in sorted(names[section])) for section in sorted(names)
    )


if __name__ == "__main__":
    print(text(everywhere()), end="")
