# SPDX-License-Identifier: Apache-2.0
"""Packages of the documentation, built and installed as their authors do."""

import pathlib
import shutil
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "docs" / "examples"


def install(name: str, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Build and install an example; return a folder for PYTHONPATH, in which Tonnage finds its entry points."""
    source, wheels, site = (tmp_path_factory.mktemp(folder) for folder in ("source", "wheels", "site"))
    # The build leaves folders in the source folder.
    shutil.copytree(EXAMPLES / name, source / "package")
    for command in (
        ["build", "--wheel", "--no-isolation", "--outdir", wheels, source / "package"],
        ["pip", "install", "--no-deps", "--no-index", "--find-links", wheels, "--target", site, name],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout
    return site
