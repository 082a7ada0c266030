# SPDX-License-Identifier: Apache-2.0
"""The images of the manifests: their files, which lie elsewhere on this machine, and their environment."""

import functools
import pathlib
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass

_ROOT = pathlib.Path(__file__).parents[2]

#: The programs that tools/install-kubernetes.sh builds.
KUBERNETES = _ROOT / ".kubernetes" / "bin"

#: The image of a kube-scheduler 1.20 that asks extenders about evictions, as all do from 1.20.10 and 1.21.4 on.
FIXED_SCHEDULER = "kube-scheduler-fixed"

#: The base of the images: the system, without its configuration, and the Python of the tests.
_BASE = dict.fromkeys(
    path
    for path in map(
        pathlib.Path,
        ("/bin", "/lib", "/lib64", "/usr", "/proc", "/dev", "/etc/ld.so.cache", sys.base_prefix, sys.prefix, _ROOT),
    )
    if path.exists()
)


@dataclass(frozen=True, slots=True)
class Image:
    """An image. ``files`` maps paths in it to paths of this machine."""

    files: Mapping[str, pathlib.Path]
    environment: Mapping[str, str]
    folder: str
    """The working directory."""


@functools.cache
def find(name: str) -> Image:
    """Return the image of that name in the manifests."""
    repository = name.rpartition("/")[2].partition(":")[0]
    base = {str(path): path for path in _BASE}
    if repository in ("kube-scheduler", FIXED_SCHEDULER):
        folder = KUBERNETES / "fixed" if repository == FIXED_SCHEDULER else KUBERNETES
        return Image({**base, "/opt/kubernetes": folder.resolve()}, {"PATH": "/opt/kubernetes"}, "/")
    assert repository == "tonnage", name
    # The last stage of the build.
    lines = (_ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8").rpartition("\nFROM ")[2].splitlines()
    words = [shlex.split(line) for line in lines if line.startswith(("ENV ", "WORKDIR "))]
    environment = dict(each.split("=", 1) for line in words if line[0] == "ENV" for each in line[1:])
    [folder] = [line[1] for line in words if line[0] == "WORKDIR"]
    return Image({**base, "/opt/tonnage": pathlib.Path(sys.prefix)}, environment, folder)
