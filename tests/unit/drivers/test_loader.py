# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import ClassVar

import pytest
from oslo_config import cfg, generator

from tests.unit.drivers import configured
from tonnage.capacity import errors
from tonnage.drivers import loader
from tonnage.drivers.filesystem import driver as filesystem_driver
from tonnage.drivers.memory import driver as memory_driver


def load(folder: Path, text: str) -> object:
    return loader.load("host@ssd", "ssd", configured.conf(folder, text))


def test_a_driver_is_loaded_by_name(tmp_path: Path) -> None:
    driver = load(tmp_path, f"[ssd]\nvolume_driver = filesystem\nfilesystem_path = {tmp_path / 'ssd'}")
    assert type(driver) is filesystem_driver.FilesystemDriver
    assert driver.backend == "host@ssd"
    assert not (tmp_path / "ssd").exists(), "loading touches nothing"


def test_sections_do_not_mix(tmp_path: Path) -> None:
    conf = configured.conf(
        tmp_path,
        """
        [one]
        volume_driver = memory
        reserved_percentage = 1
        [two]
        volume_driver = memory
        reserved_percentage = 2
        """,
    )
    drivers = [loader.load(f"host@{name}", name, conf) for name in ("one", "two", "one")]
    assert [driver.report()[0]["reserved_percentage"] for driver in drivers] == [1, 2, 1]


def test_pools_report_accessibility_and_storage_classes(tmp_path: Path) -> None:
    conf = configured.conf(
        tmp_path,
        """
        [local]
        volume_driver = memory
        memory_pools = a, b
        node_name = n1
        topology_labels = topology.kubernetes.io/zone:z1, rack:r3
        storage_classes = fast, <fallback>
        report_lifetime = 60
        [local:b]
        storage_classes = safe
        [array]
        volume_driver = memory
        memory_pools = array
        node_topology = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]}
        [everywhere]
        volume_driver = memory
        memory_pools = everywhere
        """,
    )
    pools = {
        pool["pool_name"]: pool
        for name in ("local", "array", "everywhere")
        for pool in loader.load(f"host@{name}", name, conf).report()
    }
    local = {
        "node_name": "n1",
        "topology_labels": {"topology.kubernetes.io/zone": "z1", "rack": "r3"},
        "storage_class": ["fast", "<fallback>"],
        "report_lifetime": 60.0,
    }
    assert {key: pools["a"][key] for key in local} == local
    assert pools["b"]["storage_class"] == "safe"
    assert pools["array"]["node_topology"]["nodeSelectorTerms"]
    assert pools["array"].keys() - pools["everywhere"].keys() == {"node_topology"}
    assert not local.keys() & pools["everywhere"].keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node_name = n1\nnode_list = n2, n3", r"\[ssd\] has node_name and node_list, and each says which nodes"),
        (
            'node_topology = {"nodeSelectorTerms": [{}]}\ntopology_labels = zone:z1',
            r"\[ssd\] has node_topology and topology_labels",
        ),
        (
            "provisioner = disk.example.com",
            r"\[ssd:pool1\] provisioner = disk.example.com: .* name them in storage_classes",
        ),
        ("node_list = n1, n2, n1", r"\[ssd\] node_list = n1, n2, n1: a node is there twice"),
        ('node_topology = {"terms": []}', r"\[ssd\] node_topology: .* is no node selector: .*unknown field `terms`"),
        ("topology_labels = zone", r"\[ssd\] topology_labels: "),
        ("report_lifetime = 0.5", r"\[ssd\] report_lifetime: "),
    ],
)
def test_invalid_accessibility_options_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=message):
        load(tmp_path, f"[ssd]\nvolume_driver = memory\n{text}")


def test_an_unknown_driver_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        errors.ConfigurationError,
        match=r"^\[ssd\] volume_driver names 'tape', which is not installed; known are csi, filesystem, lvm, memory$",
    ):
        load(tmp_path, "[ssd]\nvolume_driver = tape")


@pytest.mark.parametrize("text", ["", "[ssd]\nreserved_percentage = 1", "[other]\nvolume_driver = memory"])
def test_a_section_without_a_driver_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"^\[ssd\] sets no volume_driver; .*filesystem, lvm, memory"):
        load(tmp_path, text)


@pytest.mark.parametrize("section", ["ssd", "ssd:gold"])
def test_an_automatic_ratio_needs_a_driver_that_supports_it(tmp_path: Path, section: str) -> None:
    text = f"""
    [ssd]
    volume_driver = memory
    memory_pools = gold, silver
    [{section}]
    max_over_subscription_ratio = auto
    """
    with pytest.raises(errors.ConfigurationError) as caught:
        load(tmp_path, text)
    assert str(caught.value) == (
        f"[{section}] max_over_subscription_ratio = auto: driver MemoryDriver of [{section}] does not support it; "
        f"set a number of at least 1 in [{section}]"
    )


@pytest.mark.parametrize("default", ["", "max_over_subscription_ratio = 5", "max_over_subscription_ratio = auto"])
@pytest.mark.parametrize("own", ["", "max_over_subscription_ratio = 2"])
def test_a_default_ratio_of_auto_needs_a_driver_that_supports_it(tmp_path: Path, default: str, own: str) -> None:
    text = f"[DEFAULT]\n{default}\n[ssd]\nvolume_driver = memory\n{own}"
    if "auto" not in default or own:
        load(tmp_path, text)
        return
    with pytest.raises(errors.ConfigurationError) as caught:
        load(tmp_path, text)
    assert str(caught.value) == (
        "[DEFAULT] max_over_subscription_ratio = auto: driver MemoryDriver of [ssd] does not support it; "
        "set a number of at least 1 in [ssd]"
    )


def test_a_section_for_a_missing_pool_is_refused(tmp_path: Path) -> None:
    text = "[ssd]\nvolume_driver = memory\nmemory_pools = gold\n[ssd:glod]\nreserved_percentage = 50"
    with pytest.raises(errors.ConfigurationError, match=r"^\[ssd:glod\] is for a pool .* it has: gold$"):
        load(tmp_path, text)


def test_a_driver_without_an_entry_point(tmp_path: Path) -> None:
    class Other(memory_driver.MemoryDriver):
        options: ClassVar = (*memory_driver.MemoryDriver.options, cfg.IntOpt("colour", min=1))

    conf = configured.conf(tmp_path, "[ssd]\ncolour = 7\n[bad]\ncolour = 0")
    driver = loader.build(Other, "host@ssd", "ssd", conf)
    assert driver.conf.colour == 7
    with pytest.raises(errors.ConfigurationError, match=r"^\[bad\] colour: "):
        loader.build(Other, "host@bad", "bad", conf)


@pytest.mark.parametrize("kind", [ZeroDivisionError, SystemExit])
def test_an_error_of_a_driver_constructor_is_a_configuration_error(tmp_path: Path, kind: type[BaseException]) -> None:
    class Broken(memory_driver.MemoryDriver):
        def __init__(self, backend: str, conf: object) -> None:
            raise kind("nothing to divide by")

    with pytest.raises(
        errors.ConfigurationError,
        match=rf"^\[ssd\] volume_driver names 'Broken', which cannot be loaded: {kind.__name__}: nothing to divide",
    ):
        loader.build(Broken, "host@ssd", "ssd", configured.conf(tmp_path, ""))


_PLUGINS = {
    "works.py": "from tonnage.drivers.memory.driver import MemoryDriver\n\nclass Works(MemoryDriver):\n    pass\n",
    "fails.py": "import no_such_module\n",
    "leaves.py": "import sys\n\nsys.exit('no licence')\n",
    "others-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: others\nVersion: 1.0\n",
    "others-1.0.dist-info/entry_points.txt": (
        "[tonnage.drivers]\nworks = works:Works\nfails = fails:Fails\nabsent = works:Absent\n"
        "plain = works:MemoryDriver.create\nleaves = leaves:Leaves\n"
    ),
}


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("works", "Works"),
        ("fails", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("absent", "cannot be loaded: AttributeError"),
        ("plain", "cannot be loaded: it is not a subclass of tonnage.drivers.base.Driver"),
        ("leaves", "cannot be loaded: SystemExit: no licence"),
    ],
)
def test_drivers_of_other_packages(tmp_path: Path, name: str, outcome: str) -> None:
    for path, text in _PLUGINS.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    script = """
    import pathlib, sys
    from tests.unit.drivers import configured
    from tonnage.capacity import errors
    from tonnage.drivers import loader

    conf = configured.conf(pathlib.Path(sys.argv[1]), f"[ssd]\\nvolume_driver = {sys.argv[2]}")
    try:
        print(type(loader.load("host@ssd", "ssd", conf)).__name__)
    except errors.ConfigurationError as error:
        print(error)
    """
    # A process of its own, since installed packages are looked up once and cached.
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), tmp_path, name],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert outcome in ended.stdout
    assert ended.stdout.count("\n") == 1
    if name != "works":
        assert ended.stdout.startswith(f"[ssd] volume_driver names '{name}', which ")
        names = ["absent", "csi", "fails", "filesystem", "leaves", "lvm", "memory", "plain", "works"]
        others = ", ".join(known_name for known_name in names if known_name != name)
        assert ended.stdout.rstrip().endswith(f"known are {others}")


def test_the_sample_configuration_has_every_option() -> None:
    ((group, found),) = loader.list_opts()
    names = [option.name for option in found]
    assert group.name == "backend"
    assert len(set(names)) == len(names)
    assert {"volume_driver", "reserved_percentage", "filesystem_path", "memory_pools"} <= set(names)
    assert all(option.help for option in found)
    for option in found:
        assert generator._format_type_name(option.type) != "unknown value"
