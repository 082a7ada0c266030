# SPDX-License-Identifier: Apache-2.0
"""Configuration files of small deployments."""

import configparser
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Option names and values.
Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Addresses:
    """The URLs of the ledger's database and of the message bus.

    Without them a deployment is one process with a SQLite database.
    """

    database: str | None = None
    bus: str | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """A token of Keystone for a project. ``options`` are those of ``[keystone_authtoken]``."""

    options: Options
    token: str
    project_id: str


def render(sections: Mapping[str, Options]) -> str:
    """Return the text of a configuration file."""
    return "\n".join(
        f"[{section}]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())
        for section, options in sections.items()
    )


def read_configuration(conf: pathlib.Path) -> dict[str, dict[str, str]]:
    """Return the options of a configuration file by section."""
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    parser.read(conf, encoding="utf-8")
    return {name: dict(parser[name]) for name in parser.sections()}


def write_variant(conf: pathlib.Path, variant: pathlib.Path, changes: Mapping[str, Options]) -> None:
    """Copy a configuration file with other values of some options. ``changes`` maps sections to options."""
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(conf)
    for section, options in changes.items():
        parser[section].update({name: str(value) for name, value in options.items()})
    with variant.open("w") as file:
        parser.write(file)
