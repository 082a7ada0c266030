# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage sample-config``: copies of the files in ``etc``, which every installation contains."""

import argparse
import pathlib
import re
import sys
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable

from tonnage.capacity import errors
from tonnage.cli.display import base_commands

#: The programs in the units, where the documentation installs them.
_PROGRAM = re.compile(rb"^(Exec\w+=)/opt/tonnage/bin(?=/tonnage)", re.MULTILINE)


def contents() -> dict[str, bytes]:
    """Return the content of each file, by its path below ``etc``. Units name the programs of this installation."""
    programs = str(pathlib.Path(sys.executable).parent).encode()
    return {
        path: _PROGRAM.sub(lambda match: match[1] + programs, file.read_bytes())
        for path, file in _files(resources.files("tonnage.etc"), "")
    }


def _files(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _files(entry, f"{prefix}{entry.name}/")
        elif entry.is_file() and not entry.name.endswith((".py", ".pyc")):
            yield f"{prefix}{entry.name}", entry


class SampleConfig(base_commands.Command):
    """Write sample configurations, systemd units, and the rules and the board for Prometheus and Grafana.

    The units start the programs of this installation. A file that exists with another content is not replaced.
    """

    exit_statuses = "Exit status: 0 if all files are there, 1 after an error, 2 for a wrong command line."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the argument of the command."""
        parser.add_argument(
            "folder", metavar="DIR", type=pathlib.Path, help="folder for the files; made if it is missing"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Write the files."""
        files = {parsed_args.folder / path: content for path, content in contents().items()}
        try:
            changed = [str(path) for path, content in files.items() if path.exists() and path.read_bytes() != content]
            if changed:
                raise errors.ConfigurationError(
                    f"{', '.join(changed)}: there with another content; choose another folder, or move them away"
                )
            for path, content in files.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                print(path)
        except OSError as error:
            raise errors.ConfigurationError(f"{parsed_args.folder} cannot be written: {error}") from None
        return 0
