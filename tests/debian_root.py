# SPDX-License-Identifier: Apache-2.0
"""A fresh root of Debian 12 with its Python and nothing else, in which commands run as an administrator's."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping

from tests import suites

CERTIFICATES = pathlib.Path("/etc/ssl/certs")

#: The packages of Debian beside its least system.
_PACKAGES = ("ca-certificates", "python3", "python3-pip", "python3-venv")

#: Mounts its first arguments up to ``--`` in the root, each at its own path, and runs the rest there. The mounts are in
#: a namespace of their own, so they end with the command.
_ENTER = """
root=$1; shift
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir -p "$root$1"; else mkdir -p "$root${1%/*}"; touch "$root$1"; fi
    mount --bind "$1" "$root$1"
    shift
done
shift
exec chroot "$root" "$@"
"""


def files_of_pip() -> set[pathlib.Path]:
    """Return the files and folders of this machine that pip needs: its configuration, and each path in that."""
    printed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "debug"], capture_output=True, text=True, check=True
    ).stdout
    found = {pathlib.Path(path) for path in re.findall(r"(?<![\w:/])/[^\s,:']+", printed)}
    # The files of an index in a folder lie beside it.
    found |= {pathlib.Path(path).parent for path in re.findall(r"file://(/[^\s,']+)", printed)}
    return {path for path in {*found, CERTIFICATES} if path.exists()}


class DebianRoot:
    """A root in a folder, see :meth:`make`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self._mounted = sorted(files_of_pip() | {pathlib.Path("/etc/resolv.conf"), pathlib.Path("/etc/hosts")})

    @classmethod
    def make(cls, folder: pathlib.Path) -> "DebianRoot":
        """Make a root in a folder that is not there yet. Skip or fail the test if this machine cannot."""
        for program, package in (("mmdebstrap", "mmdebstrap"), ("unshare", "util-linux")):
            if shutil.which(program) is None:
                suites.cannot_run("Debian root", f"no {program} on this machine; install the package {package}")
        if os.geteuid() != 0:
            suites.cannot_run("Debian root", "only root can make it")
        command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(_PACKAGES)}", "bookworm", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return cls(folder)

    def run(self, *command: str, path: str = "") -> str:
        """Run a command in ``/root`` and return its output. ``path`` goes before the usual search path.

        :raises ValueError: if the command fails, with the end of its output
        """
        environment = {**_of_pip(os.environ), "LANG": "C.UTF-8", "HOME": "/root"}
        environment["PATH"] = f"{path}:{_PATH}".lstrip(":")
        entered = ["sh", "-c", 'cd /root && exec "$@"', "sh", *command]
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-ec", _ENTER, "sh", self.folder, *self._mounted, "--", *entered],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ValueError(f"{' '.join(command)}: status {done.returncode}: {done.stdout[-3000:]}")
        return done.stdout

    def shell(self, text: str, path: str = "") -> str:
        """Run the text of a command, as :meth:`run` does, without a compiler."""
        return self.run("env", "CC=false", "CXX=false", "bash", "-euo", "pipefail", "-c", text, path=path)


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _of_pip(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that tell pip where packages come from."""
    prefixes = ("PIP_", "SSL_CERT", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    return {name: value for name, value in environment.items() if name.upper().startswith(prefixes)}
