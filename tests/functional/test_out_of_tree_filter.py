# SPDX-License-Identifier: Apache-2.0
"""The filter of the plug-in author's guide: a package of its own, installed by pip and enabled in the configuration."""

import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.functional.conftest import Deploy
from tests.functional.deployment import Addresses
from tests.functional.deployment import Deployment

EXAMPLE = pathlib.Path(__file__).parents[2] / "docs" / "examples" / "tonnage-odd-filter"
FILTERS = "AvailabilityZoneFilter, CapacityFilter, CapabilitiesFilter, OddFilter"
BACKENDS = {
    "even": {"filesystem_size_limit_gb": 10, "extra_capabilities": '{"even_only": true}'},
    "any": {"filesystem_size_limit_gb": 2, "max_over_subscription_ratio": 1.0},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder for PYTHONPATH with the installed package, found by its entry point like any other."""
    source, site = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    # Building leaves folders behind where the source is.
    shutil.copytree(EXAMPLE, source / "package")
    install = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([sys.executable, "-m", *install, "--target", site, source / "package"], check=True, timeout=120)
    return site


def test_it_is_less_than_25_lines() -> None:
    assert sum(len(file.read_text().splitlines()) for file in EXAMPLE.iterdir() if file.is_file()) < 25


def test_it_refuses_pools_and_says_so(deploy: Deploy, site: pathlib.Path) -> None:
    with deploy(BACKENDS, environment={"PYTHONPATH": str(site)}, scheduler_default_filters=FILTERS) as tonnage:
        rest = tonnage.start().rest
        # The roomier pool takes even sizes only.
        for size, backend in ((2, "even"), (1, "any")):
            assert rest.made(rest.create(size))["os-vol-host-attr:host"] == tonnage.pool(backend)
        refusal = rest.refusal(3)
        assert refusal["message"] == (
            "No pool for 3 GiB: 2 pools; CapacityFilter refused 1; "
            f"OddFilter refused 1, nearest {tonnage.pool('even')} takes even sizes only, not 3 GiB"
        )
        nearest = refusal["refusal"]["nearest"]
        assert (nearest["filter"], nearest["rejection"]["code"]) == ("OddFilter", "odd_size")


@pytest.mark.parametrize(
    ("program", "name", "broken", "reason"),
    [
        ("scheduler", "EvenFilter", None, "'EvenFilter', which is not installed"),
        ("standalone", "EvenFilter", None, "'EvenFilter', which is not installed"),
        ("scheduler", "OddFilter", "import nothing_of_this_name\n", "cannot be loaded: ModuleNotFoundError: No module"),
        ("scheduler", "OddFilter", "OddFilter = 7\n", "cannot be loaded: it is not a subclass of tonnage.filters.base"),
        (
            "standalone",
            "OddFilter",
            "from tonnage.filters.base import PoolFilter\nclass OddFilter(PoolFilter): pass\n",
            "cannot be loaded: TypeError: Can't instantiate abstract class OddFilter",
        ),
    ],
    ids=["unknown", "unknown in one process", "import fails", "no filter", "abstract"],
)
def test_an_unknown_or_broken_one_stops_the_daemon(
    site: pathlib.Path, tmp_path: pathlib.Path, program: str, name: str, broken: str | None, reason: str
) -> None:
    installed = tmp_path / "site"
    shutil.copytree(site, installed)
    if broken is not None:
        (installed / "tonnage_odd_filter.py").write_text(broken)
        shutil.rmtree(installed / "__pycache__", ignore_errors=True)
    environment = {"PYTHONPATH": str(installed)}
    with Deployment(Addresses(), BACKENDS, environment, scheduler_default_filters=f"CapacityFilter, {name}") as tonnage:
        ended = tonnage.attempt(program)
    assert ended.code == 1
    assert ended.error.startswith(f"tonnage-{program}: scheduler_default_filters names '{name}'")
    assert reason in ended.error
    known = "CapabilitiesFilter, CapacityFilter, DifferentBackendFilter, OddFilter, SameBackendFilter"
    assert ended.error.endswith(f"; known are AvailabilityZoneFilter, {known}\n")
    assert ended.error.count("\n") == 1
    assert ended.output == ""
