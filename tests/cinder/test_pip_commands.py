# SPDX-License-Identifier: Apache-2.0
"""The commands of the pages that install Tonnage, in a fresh root of Debian 12, with the constraints of a release.

The constraints are those that OpenStack publishes, or the file that ``TOX_CONSTRAINTS_FILE`` names.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.debian_root import DebianRoot
from tests.servers.cinder import RELEASE
from tests.unit import libraries

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3600)]

ROOT = pathlib.Path(__file__).parents[2]

#: The constraints in the pages, and where the roots have them.
_PUBLISHED = "https://releases.openstack.org/constraints/upper/"
_CONSTRAINTS = "/requirements/upper-constraints.txt"

#: The series by the release of Cinder; the pages have that of 28.
_SERIES = {"25": "2024.2", "26": "2025.1", "27": "2025.2", "28": "2026.1", "29": "2026.2"}

#: An environment of Cinder, as OpenStack-Ansible and Kolla make one.
_VENV = "/openstack/venvs/cinder"

#: The environment of its own that the pages make.
_TONNAGE = "/opt/tonnage"

#: The packages that Tonnage adds to an environment of Cinder.
_ADDED = {*libraries.versions_of_cinder()[1], "tonnage"}

_WHEEL = re.compile(r"tonnage-[\d.]+-py3-none-any\.whl")

_RELEASE = RELEASE or max(_SERIES)


def _page(name: str) -> str:
    """Return a page with its continued lines joined."""
    return re.sub(r" \\\n\s+", " ", (ROOT / "docs" / f"{name}.rst").read_text(encoding="utf-8"))


def _commands(page: str) -> list[str]:
    """Return the commands of a page that make environments or install packages."""
    lines = [line.strip() for line in _page(page).splitlines()]
    prompts = [line.partition(" ")[2] for line in lines if line.startswith(("# ", "RUN "))]
    return [text for text in prompts if "pip install" in text or "-m venv" in text]


def _of_release(command: str) -> str:
    """Return a command of a page with the constraints of this release, from the file if there is one."""
    command = command.replace(f"{_PUBLISHED}2026.1", f"{_PUBLISHED}{_SERIES[_RELEASE]}")
    if "TOX_CONSTRAINTS_FILE" in os.environ:
        command = command.replace(f"{_PUBLISHED}{_SERIES[_RELEASE]}", _CONSTRAINTS)
    return command


_WITH_CONSTRAINTS = [
    *(command for command in _commands("cinder-scheduler") if " -c " in command),
    *(command for command in _commands("cinder-deployers") if " --constraint " in command),
]


def _requirement() -> str:
    """Return the requirement that OpenStack-Ansible gets, which its role installs with the constraints."""
    [found] = re.findall(r"cinder_user_pip_packages:\n +- (.*)\n", _page("cinder-deployers"))
    assert _WHEEL.search(found)
    return re.sub(r"https://\S+/", "file:///tmp/", found)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The wheel of the last commit."""
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "source").mkdir()
    archive = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "--extract", "--directory", folder / "source"], input=archive, check=True)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, folder / "source"]
    subprocess.run(build, stdout=subprocess.DEVNULL, check=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def debian(wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DebianRoot]:
    """A root with the wheel and the constraints, but without Cinder."""
    folder = tmp_path_factory.mktemp("debian") / "root"
    root = DebianRoot.make(folder)
    for place in ("tmp", "root"):
        shutil.copy(wheel, folder / place)
    (folder / "requirements").mkdir()
    published = f"{_PUBLISHED}{_SERIES[_RELEASE]}"
    if "TOX_CONSTRAINTS_FILE" in os.environ:
        shutil.copy(os.environ["TOX_CONSTRAINTS_FILE"], folder / _CONSTRAINTS[1:])
    else:
        fetch = "import sys, urllib.request as u; u.urlretrieve(*sys.argv[1:])"
        root.run("python3", "-c", fetch, published, _CONSTRAINTS)
    yield root
    shutil.rmtree(folder)


def _install_cinder(debian: DebianRoot, pip: str, *options: str) -> None:
    """Install Cinder, with a compiler, which some libraries of Cinder need. No command of a page may use that."""
    debian.run("apt-get", "update", "--quiet")
    debian.run("apt-get", "install", "--quiet", "--yes", "--no-install-recommends", "gcc", "libc6-dev", "python3-dev")
    packages = (f"cinder=={_RELEASE}.*", "setuptools<81", "PyMySQL")
    options = ("--quiet", "--root-user-action=ignore", *options, "--constraint", _CONSTRAINTS)
    debian.run(pip, "install", *options, *packages)


def _versions(debian: DebianRoot, pip: str, *options: str) -> dict[str, str]:
    """Return the versions of the packages that an environment has."""
    return libraries.versions_of_freeze(debian.run(pip, "list", "--format=freeze", *options))


@pytest.fixture(scope="module")
def environment(debian: DebianRoot) -> dict[str, str]:
    """The versions in a virtual environment with Cinder."""
    debian.run("python3", "-m", "venv", _VENV)
    _install_cinder(debian, f"{_VENV}/bin/pip")
    return _versions(debian, f"{_VENV}/bin/pip")


@pytest.mark.parametrize(
    "command",
    [*_WITH_CONSTRAINTS, f"pip install {shlex.quote(_requirement())} --constraint {_CONSTRAINTS}"],
    ids=["scheduler", "kolla", "helm", "openstack-ansible"],
)
def test_a_command_with_constraints_changes_no_library_of_cinder(
    command: str, debian: DebianRoot, environment: dict[str, str]
) -> None:
    programs = f"{_VENV}/bin"
    debian.shell(_of_release(command), path=programs)
    after = _versions(debian, f"{programs}/pip")
    assert {name: after.get(name) for name in environment} == environment
    assert after.keys() - environment.keys() == _ADDED
    assert debian.run("pip", "check", path=programs) == "No broken requirements found.\n"
    _is_usable(debian, programs)
    debian.run("pip", "uninstall", "--quiet", "--yes", "--root-user-action=ignore", *sorted(_ADDED), path=programs)
    assert _versions(debian, f"{programs}/pip") == environment


def _is_usable(debian: DebianRoot, programs: str) -> None:
    """Check that the programs of Tonnage run in an environment, and that Cinder gets its classes there."""
    for program in ("tonnage", "tonnage-manage", "tonnage-status"):
        assert debian.run(f"{programs}/{program}", "--version").startswith(f"{program} ")
    assert "--config-file" in debian.run(f"{programs}/tonnage-cinder-scheduler", "--help")
    program = """
from tonnage.extensions.cinder import releases
releases.import_program().objects.register_all()
from oslo_utils import importutils
from tonnage.extensions.cinder.daemons import cinder_scheduler
print(*(importutils.import_class(name).__name__ for name in cinder_scheduler.OPTIONS.values()))
"""
    # Cinder may print a warning before.
    assert debian.run(f"{programs}/python", "-W", "ignore", "-c", program).splitlines()[-1].split() == [
        "LedgerSchedulerManager",
        "LedgerScheduler",
    ]


def test_an_environment_that_sees_packages_of_a_distribution_gets_no_library_of_cinder(debian: DebianRoot) -> None:
    """Cinder in the system's own Python stands for the packages of a distribution."""
    create, install = (text for text in _commands("cinder-scheduler") if " -c " not in text)
    with pytest.raises(ValueError, match="externally-managed-environment"):
        debian.shell(install.removeprefix(f"{_TONNAGE}/bin/"))
    _install_cinder(debian, "pip", "--break-system-packages")
    before = _versions(debian, "pip")
    debian.shell(create)
    debian.shell(install)
    assert _versions(debian, f"{_TONNAGE}/bin/pip", "--local").keys() - {"pip", "setuptools"} == _ADDED
    assert _versions(debian, "pip") == before
    assert debian.run(f"{_TONNAGE}/bin/pip", "check") == "No broken requirements found.\n"
    _is_usable(debian, f"{_TONNAGE}/bin")
    shutil.rmtree(debian.folder / _TONNAGE[1:])


def test_the_watch_gets_an_environment_of_its_own(debian: DebianRoot) -> None:
    """It has no library of Cinder; the command of the page makes the environment too."""
    [command] = _commands("cinder-watch")
    debian.shell(command)
    assert debian.run(f"{_TONNAGE}/bin/pip", "check") == "No broken requirements found.\n"
    assert "cinder" not in _versions(debian, f"{_TONNAGE}/bin/pip")
    for program in ("tonnage-manage", "tonnage-cinder-shadow"):
        assert "--config-file" in debian.run(f"{_TONNAGE}/bin/{program}", "--help")
    assert "revision" in debian.shell(
        "printf '[database]\\nconnection = sqlite:////root/shadow.sqlite\\n' >tonnage.conf; "
        f"{_TONNAGE}/bin/tonnage-manage --config-file tonnage.conf db sync"
    )
    shutil.rmtree(debian.folder / _TONNAGE[1:])
