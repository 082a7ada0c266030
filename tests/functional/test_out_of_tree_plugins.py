# SPDX-License-Identifier: Apache-2.0
"""The plug-ins of the author's guide as a separate package: built, installed, enabled and run, and faulty versions."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.functional import packages
from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import GIB, Addresses, Deployment, run_program
from tests.servers.base import wait_for

DOCS = pathlib.Path(__file__).parents[2] / "docs"
EXAMPLE = packages.EXAMPLES / "tonnage-example-plugins"
FILTERS = "AvailabilityZoneFilter, CapacityFilter, CapabilitiesFilter, OddFilter"
WEIGHERS = "CapacityWeigher, MediaWeigher"
BACKENDS = {
    "even": {
        "volume_driver": "folder",
        "folder_path": "$state_path/folders",
        "folder_size_gb": 20,
        "max_over_subscription_ratio": 1.0,
        "extra_capabilities": '{"even_only": true, "media": "hdd"}',
    },
    "any": {
        "filesystem_size_limit_gb": 8,
        "max_over_subscription_ratio": 1.0,
        "extra_capabilities": '{"media": "ssd"}',
    },
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder for PYTHONPATH with the installed package, whose entry points Tonnage finds."""
    return packages.install(EXAMPLE.name, tmp_path_factory)


def test_the_example_plugins_are_short() -> None:
    lines = {path.stem: len(path.read_text().splitlines()) for path in EXAMPLE.glob("tonnage_example/*.py")}
    assert lines.keys() == {"__init__", "filters", "weighers", "drivers"}
    assert lines["filters"] < 25
    assert lines["weighers"] < 25
    assert sum(lines.values()) < 150


@on_one_database
def test_the_example_filter_weigher_and_driver_work(deploy: Deploy, site: pathlib.Path) -> None:
    with deploy(
        BACKENDS,
        environment={"PYTHONPATH": str(site)},
        scheduler_default_filters=FILTERS,
        scheduler_default_weighers=WEIGHERS,
        media_weight_multiplier=2.0,
    ) as tonnage:
        rest = tonnage.start().rest

        def place(size: int, **hints: str) -> dict[str, Any]:
            body = {"volume": {"size": size}, "OS-SCH-HNT:scheduler_hints": hints}
            answer = rest.request("POST", "volumes", body)
            assert answer.status_code == 202, answer.text
            return rest.wait_until_available(answer.json()["volume"]["id"])

        def folder() -> dict[str, int]:
            here = tonnage.folder / "folders" / f"{tonnage.host}@even"
            return {file.name: file.stat().st_size // GIB for file in here.iterdir()}

        # The driver: its pool, which has the most free capacity, is a folder with a file for each volume.
        volume = place(2)
        assert volume["os-vol-host-attr:host"] == tonnage.pool("even")
        assert folder() == {volume["id"]: 2}
        assert rest.extend(volume["id"], 4).status_code == 202
        wait_for(lambda: folder() == {volume["id"]: 4}, "the file has grown")
        assert rest.wait_until_available(volume["id"])["size"] == 4

        # The filter: the pool takes even sizes only.
        assert place(1)["os-vol-host-attr:host"] == tonnage.pool("any")
        # The weigher: the other pool has less free capacity, but the requested medium.
        assert place(2, media="ssd")["os-vol-host-attr:host"] == tonnage.pool("any")
        assert place(2, media="hdd")["os-vol-host-attr:host"] == tonnage.pool("even")

        refusal = rest.refusal(9)
        assert refusal["message"] == (
            "No pool for 9 GiB: 2 pools; CapacityFilter refused 1; "
            f"OddFilter refused 1, nearest {tonnage.pool('even')} takes even sizes only, not 9 GiB"
        )
        nearest = refusal["refusal"]["nearest"]
        assert (nearest["filter"], nearest["rejection"]["code"]) == ("OddFilter", "odd_size")
        # The driver's limit of 20 GiB, less 6 GiB of volumes, is the scheduler's headroom.
        assert "headroom 14.00 GiB (total 20" in rest.refusal(16)["message"]

        rest.delete(volume["id"])
        assert volume["id"] not in folder()


def test_the_example_driver_passes_the_driver_contract(site: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The test runs as its author runs it: with Tonnage and the package installed, without a checkout."""
    shutil.copy(EXAMPLE / "test_driver.py", tmp_path)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:schemathesis",
            "--quiet",
            "test_driver.py",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout
    outcome = r"^\s*(\d+ passed, \d+ skipped) in"
    found, documented = (
        re.search(outcome, text, re.MULTILINE)
        for text in (done.stdout, (DOCS / "plugin-guide.rst").read_text(encoding="utf-8"))
    )
    assert found is not None
    assert documented is not None
    assert found[1] == documented[1]


#: Faulty plug-ins. The sizes of volumes, and the file ``report`` of the driver, select the fault.
FAULTY = {
    "filters": """
import sys
from tonnage.capacity.decision import Rejection
from tonnage.filters.base import PoolFilter
class OddFilter(PoolFilter):
    def accepts_pool(self, pool, request):
        if request.size_gb == 101:
            raise ValueError("boom")
        if request.size_gb == 102:
            return None
        if request.size_gb == 103:
            sys.exit("enough")
        return request.size_gb < 104
    def reason(self, pool, request):
        if request.size_gb == 104:
            raise LookupError("no words")
        if request.size_gb == 105:
            return "because"
        return Rejection("many", "is too small", {"size": object()})
""",
    "weighers": """
from tonnage.weighers.base import PoolWeigher
class MediaWeigher(PoolWeigher):
    def weigh_pool(self, pool, request):
        if request.size_gb == 2:
            raise ValueError("boom")
        return 0
""",
    "drivers": """
import numpy as np
from tonnage_example.sound import FolderDriver as Sound
class FolderDriver(Sound):
    def create(self, volume):
        if volume.size_gb == 11:
            raise ValueError("on fire")
        super().create(volume)
    def report(self):
        wish = self._folder.parent / "report"
        if not wish.exists():
            return super().report()
        if wish.read_text() == "half":
            [pool] = super().report()
            return [{**pool, "provisioned_capacity_gb": pool["provisioned_capacity_gb"] / 2}]
        return [{"pool_name": np.float64(1)}]
""",
}


@pytest.mark.heavy
def test_daemons_survive_faulty_plugins(site: pathlib.Path, tmp_path: pathlib.Path) -> None:
    installed = tmp_path / "site"
    shutil.copytree(site, installed)
    package = installed / "tonnage_example"
    shutil.rmtree(package / "__pycache__", ignore_errors=True)
    (package / "drivers.py").rename(package / "sound.py")
    for module, source in FAULTY.items():
        (package / f"{module}.py").write_text(source)
    backends = {"even": {**BACKENDS["even"], "folder_size_gb": 1000}}
    with Deployment(
        Addresses(),
        backends,
        {"PYTHONPATH": str(installed)},
        scheduler_default_filters="OddFilter",
        scheduler_default_weighers="MediaWeigher",
        service_down_time=10,
    ) as tonnage:
        rest, pool = tonnage.start().rest, tonnage.pool("even")
        failed = "No pool for {} GiB: 1 pool; OddFilter refused 1, nearest {} could not be judged, OddFilter failed ("
        for size, cause in {
            101: "ValueError: boom",
            102: "TypeError: accepts_pool returned None, expected True or False",
            103: "SystemExit: enough",
            104: "LookupError: no words",
            105: "TypeError: reason() returned a str, expected a Rejection",
            106: "TypeError: reason() returned a Rejection one of whose numbers is a object",
        }.items():
            assert rest.refusal(size)["message"] == failed.format(size, pool) + f"{cause})"

        rest.wait_until_available(rest.create(1))
        rest.wait_until_available(rest.create(2))
        answer = rest.request("POST", "scheduler-stats/explain", {"volume": {"size": 2}})
        [weight] = answer.json()["explanation"]["verdicts"][0]["weights"]
        assert (weight["weigher"], weight["failure"]) == ("MediaWeigher", "ValueError: boom")

        volume = rest.create(11)
        wait_for(lambda: rest.volume(volume)["status"] == "error", "the volume is in error")
        reason = rest.volume(volume)["status_reason"]
        assert f"failed on backend {tonnage.host}@even with an internal error (ValueError)" in reason
        rest.wait_until_available(rest.create(1))

        # An unusable report counts as no report. The next report ends the silence.
        wish = tonnage.folder / "folders" / "report"
        wish.write_text("numpy")
        wait_for(lambda: rest.request_volume(1).status_code == 409, "the backend is down")
        assert f"nearest {pool} is down: no report for" in rest.refusal(1)["message"]
        wish.unlink()
        wait_for(lambda: rest.request_volume(1).status_code == 202, "the backend is up again")

        # A report with half of the provisioned capacity: the schedulers compare it with a listing.
        wish.write_text("half")
        found = wait_for(lambda: rest.pools()[pool].get("findings"), "the report has findings")
        assert [each["breach"] for each in found] == ["provisioned_too_small"]
        wish.unlink()
        wait_for(lambda: "findings" not in rest.pools()[pool], "the report has no findings")


#: Plug-ins that define and call the former names of the contract only.
FORMER = {
    "filters": """
from tonnage.capacity.decision import Rejection
from tonnage.filters.availability_zone import AvailabilityZoneFilter
class OddFilter(AvailabilityZoneFilter):
    judges_kind = True
    looks_at_figures = False
    request_fields = ("size_gb",)
    judged = False
    def accepts(self, pools, request):
        values = [capabilities.get("even_only") for capabilities in pools.capabilities]
        odd = request.size_gb % 2 == 1
        return super().accepts(pools, request) & [not (odd and value) for value in values]
    def kept_by(self, request):
        return (*super().kept_by(request), request.size_gb % 2)
    def judged_by(self, calculation):
        other = super().judged_by(calculation)
        other.judged = True
        return other
    def reason(self, pool, request):
        assert self.looks_at_figures is self.reads_figures is False
        return Rejection("odd_size", f"takes even sizes only{', judged again' if self.judged else ''}")
""",
    "weighers": """
from tonnage.weighers.base import Weigher
class MediaWeigher(Weigher):
    factor = 1.0
    def judged_by(self, calculation):
        other = super().judged_by(calculation)
        other.factor = 7.0
        return other
    def weigh(self, pools, request):
        return pools.free * self.factor
""",
    "drivers": """
import contextlib
from tonnage_example.sound import FolderDriver as Sound
class FolderDriver(Sound):
    name = "a name of its own"
    def one_look(self):
        return contextlib.nullcontext(enter_result=False)
    def has_news(self):
        return False
    def create(self, volume):
        self.admit_data(self.report()[0], volume, 0)
        assert self.name == "a name of its own"
        super().create(volume)
""",
}


def test_plugins_with_the_former_names_of_the_contract_work(site: pathlib.Path, tmp_path: pathlib.Path) -> None:
    installed = tmp_path / "site"
    shutil.copytree(site, installed)
    package = installed / "tonnage_example"
    shutil.rmtree(package / "__pycache__", ignore_errors=True)
    (package / "drivers.py").rename(package / "sound.py")
    for module, source in FORMER.items():
        (package / f"{module}.py").write_text(source)
    with Deployment(
        Addresses(),
        {"even": BACKENDS["even"]},
        {"PYTHONPATH": str(installed)},
        scheduler_default_filters="CapacityFilter, OddFilter",
        scheduler_default_weighers="MediaWeigher",
    ) as tonnage:
        rest, pool = tonnage.start().rest, tonnage.pool("even")
        volume = rest.wait_until_available(rest.create(2))
        assert volume["os-vol-host-attr:host"] == pool
        assert rest.refusal(3)["message"] == (
            f"No pool for 3 GiB: 1 pool; OddFilter refused 1, nearest {pool} takes even sizes only"
        )

        def simulate(size: int, **changes: str) -> dict[str, Any]:
            body = {"requests": [{"volume": {"size": size}}], "changes": changes, "detail": True}
            answer = rest.request("POST", "scheduler-stats/what-if", body)
            assert answer.status_code == 200, answer.text
            [outlook] = answer.json()["outlooks"]
            [explanation] = outlook["volumes"]
            [verdict] = explanation["verdicts"]
            return verdict

        [weight], [changed] = (simulate(2, **changes)["weights"] for changes in ({}, {"calculation": "standard"}))
        assert changed["raw"] == 7 * weight["raw"]
        assert simulate(3, calculation="standard")["rejection"]["message"] == "takes even sizes only, judged again"


@pytest.mark.parametrize(
    ("program", "name", "broken", "reason"),
    [
        ("scheduler", "EvenFilter", None, "'EvenFilter', which is not installed"),
        ("scheduler", "OddFilter", "import nothing_of_this_name\n", "cannot be loaded: ModuleNotFoundError: No module"),
        (
            "standalone",
            "OddFilter",
            "from tonnage.filters.base import PoolFilter\nclass OddFilter(PoolFilter): pass\n",
            "cannot be loaded: TypeError: Can't instantiate abstract class OddFilter",
        ),
    ],
    ids=["unknown", "import fails", "abstract"],
)
def test_an_unknown_or_broken_filter_is_reported_in_one_line(
    site: pathlib.Path, tmp_path: pathlib.Path, program: str, name: str, broken: str | None, reason: str
) -> None:
    installed = tmp_path / "site"
    shutil.copytree(site, installed)
    if broken is not None:
        (installed / "tonnage_example" / "filters.py").write_text(broken)
        shutil.rmtree(installed / "tonnage_example" / "__pycache__", ignore_errors=True)
    environment = {"PYTHONPATH": str(installed)}
    with Deployment(
        Addresses(), {"any": BACKENDS["any"]}, environment, scheduler_default_filters=f"CapacityFilter, {name}"
    ) as tonnage:
        ended = tonnage.run_command(program)
    assert ended.code == 1
    assert ended.error.startswith(f"tonnage-{program}: scheduler_default_filters names '{name}'")
    assert reason in ended.error
    names = (
        *("AvailabilityZoneFilter", "CapabilitiesFilter", "CapacityFilter", "DifferentBackendFilter", "DriverFilter"),
        *("FreeSpaceFilter", "InstanceLocalityFilter", "JsonFilter", "OddFilter", "RetryFilter", "SameBackendFilter"),
        *("StorageClassFilter", "TopologyFilter"),
    )
    assert f"; known are {', '.join(known_name for known_name in names if known_name != name)}" in ended.error
    assert ended.error.count("\n") == 1
    assert ended.output == ""


@pytest.mark.heavy
def test_a_filter_that_hangs_does_not_keep_the_standalone_from_its_end(
    site: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    installed = tmp_path / "site"
    shutil.copytree(site, installed)
    (installed / "tonnage_example" / "filters.py").write_text(
        "import pathlib, time\n"
        "from tonnage.filters.base import Filter\n\n"
        "class OddFilter(Filter):\n"
        "    def accepts(self, pools, request):\n"
        f"        pathlib.Path({str(tmp_path / 'hangs')!r}).touch()\n"
        "        time.sleep(3600)\n"
    )
    with Deployment(
        Addresses(),
        {"any": {"filesystem_size_limit_gb": 8}},
        {"PYTHONPATH": str(installed)},
        scheduler_default_filters="CapacityFilter, OddFilter",
        graceful_shutdown_timeout=3,
    ) as tonnage:
        tonnage.start("standalone")
        question = ("tonnage", "--config-file", tonnage.conf, "explain", "1")
        threading.Thread(target=run_program, args=question, daemon=True).start()
        wait_for((tmp_path / "hangs").exists, "the filter hangs")
        assert tonnage.stop() == {"standalone": 1}
        assert "graceful_shutdown_timeout = 3 s: OddFilter has not returned" in tonnage.logs()
