# SPDX-License-Identifier: Apache-2.0
"""The behaviour of the memory driver beyond the contract (tests/contract/test_memory.py)."""

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.drivers import configured
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers import loader
from tonnage.drivers.base import Driver, Source, Volume


def make(folder: Path, text: str = "", sections: str = "", backend: str = "host@mem") -> Driver:
    conf = configured.conf(folder, f"[mem]\nvolume_driver = memory\n{text}\n{sections}")
    driver = loader.load(backend, "mem", conf)
    driver.check()
    return driver


def volume(name: str, size_gb: int = 1, pool: str = "pool1", kind: Provisioning = Provisioning.THIN) -> Volume:
    return Volume(id=name, pool=pool, size_gb=size_gb, provisioning=kind)


@pytest.mark.parametrize(
    ("text", "names"), [("3", ["pool1", "pool2", "pool3"]), ("gold, silver", ["gold", "silver"]), ("gold", ["gold"])]
)
def test_pools_are_named_or_numbered(tmp_path: Path, text: str, names: list[str]) -> None:
    assert [pool["pool_name"] for pool in make(tmp_path, f"memory_pools = {text}").report()] == names


@pytest.mark.parametrize("text", ["0", "", "gold, gold"])
def test_invalid_pool_lists_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"\[mem\] memory_pools"):
        make(tmp_path, f"memory_pools = {text}")


def test_each_pool_has_its_own_size_and_ratio(tmp_path: Path) -> None:
    driver = make(
        tmp_path,
        "memory_pools = gold, silver\nmemory_pool_size_gb = 10\nmax_over_subscription_ratio = 2",
        "[mem:gold]\nmemory_pool_size_gb = 7.5\nmax_over_subscription_ratio = 4\nmemory_provisioning = thin",
    )
    gold, silver = driver.report()
    assert (gold["total_capacity_gb"], gold["max_over_subscription_ratio"]) == (7.5, 4.0)
    assert (silver["total_capacity_gb"], silver["max_over_subscription_ratio"]) == (10.0, 2.0)
    assert (gold["thick_provisioning_support"], silver["thick_provisioning_support"]) == (False, True)
    with pytest.raises(errors.DriverError, match="makes no thick volumes") as caught:
        driver.create(volume("v", pool="gold", kind=Provisioning.THICK))
    assert caught.value.clean


def test_failures_are_the_same_for_the_same_seed(tmp_path: Path) -> None:
    def failures(seed: int) -> list[int]:
        driver = make(tmp_path, f"memory_failure_share = 0.3\nmemory_seed = {seed}\nmemory_pool_size_gb = 1000")
        failed = []
        for number in range(200):
            try:
                driver.create(volume(f"v{number}"))
            except errors.DriverError as error:
                failed.append((number, error.clean))
        assert all(clean for _, clean in failed)
        assert {f"v{number}" for number, _ in failed}.isdisjoint(stored.id for stored in driver.list_volumes())
        return [number for number, _ in failed]

    first = failures(1)
    assert 30 < len(first) < 90
    assert failures(1) == first
    assert failures(2) != first


def test_operations_take_the_configured_latency(tmp_path: Path) -> None:
    driver = make(tmp_path, "memory_latency = 0.05")
    start = time.monotonic()
    driver.create(volume("v"))
    assert time.monotonic() - start >= 0.05


def test_without_a_state_file_volumes_are_lost_with_the_driver(tmp_path: Path) -> None:
    make(tmp_path).create(volume("v"))
    assert make(tmp_path).list_volumes() == []


def test_a_file_of_another_format_is_refused_and_unchanged(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    for text in ("{", "[]", '{"pool1": {"v": {}}}', '{"pool1": []}'):
        state.write_text(text, encoding="utf-8")
        with pytest.raises(errors.ConfigurationError, match=r"memory_state_file = .*state\.json"):
            make(tmp_path, f"memory_state_file = {state}")
        assert state.read_text(encoding="utf-8") == text


def test_an_unwritable_state_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"memory_state_file = .*No such file or directory"):
        make(tmp_path, f"memory_state_file = {tmp_path / 'absent' / 'state.json'}")


def test_removed_pools_stay_in_the_state_file(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    make(tmp_path, f"memory_state_file = {state}\nmemory_pools = 2").create(volume("v", pool="pool2"))
    driver = make(tmp_path, f"memory_state_file = {state}\nmemory_pools = 1")
    assert driver.list_volumes() == []
    driver.create(volume("w"))
    assert set(json.loads(state.read_text(encoding="utf-8"))["pool2"]) == {"v"}


# Marks of state files


def test_a_state_file_that_is_gone_is_not_made_again_while_its_mark_is_there(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    make(tmp_path, f"memory_state_file = {state}").mark_ledger("ledger-1")
    state.rename(tmp_path / "moved")
    with pytest.raises(errors.ConfigurationError) as caught:
        make(tmp_path, f"memory_state_file = {state}")
    assert str(caught.value) == (
        f"[mem] memory_state_file = {state}: the file with the volumes is gone; restore it, or if they are lost for "
        f"good, remove its mark {state}.ledger too"
    )
    assert not state.exists()
    (tmp_path / "moved").rename(state)
    assert set(make(tmp_path, f"memory_state_file = {state}").ledger_marks().values()) == {"ledger-1"}


def test_a_driver_without_a_state_file_has_no_marks(tmp_path: Path) -> None:
    driver = make(tmp_path)
    driver.mark_ledger("ledger-1")
    assert driver.ledger_marks() == {}


# Owners of state files


def test_backends_without_a_storage_id_cannot_share_a_state_file(tmp_path: Path) -> None:
    """Each backend would overwrite the volumes of the other with its own state."""
    state = tmp_path / "state.json"
    make(tmp_path, f"memory_state_file = {state}").create(volume("v"))
    with pytest.raises(errors.ConfigurationError) as caught:
        make(tmp_path, f"memory_state_file = {state}", backend="host@other")
    assert str(caught.value) == (
        f"[mem] memory_state_file = {state}: it is that of host@mem, not of host@other; name another, or set "
        f"memory_storage_id for the pools of both; if nobody else uses it any more, remove {state}.owner"
    )
    assert [stored.id for stored in make(tmp_path, f"memory_state_file = {state}").list_volumes()] == ["v"]
    (tmp_path / "state.json.owner").unlink()
    assert [
        stored.id for stored in make(tmp_path, f"memory_state_file = {state}", backend="host@other").list_volumes()
    ] == ["v"]


@pytest.mark.parametrize("order", [("", "disk"), ("disk", "")])
def test_a_state_file_is_either_shared_or_exclusive(tmp_path: Path, order: tuple[str, str]) -> None:
    state = f"memory_state_file = {tmp_path / 'state.json'}\nmemory_storage_id ="
    make(tmp_path, f"{state} {order[0]}", backend="host@one").create(volume("v"))
    with pytest.raises(errors.ConfigurationError, match=r"it is that of .*, not of .*; name another"):
        make(tmp_path, f"{state} {order[1]}", backend="host@two")
    assert "v" in (tmp_path / "state.json").read_text(encoding="utf-8")


def test_a_state_file_without_an_owner_is_adopted(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text('{"pool1": {"v": {"size_gb": 2, "provisioning": "thin"}}}', encoding="utf-8")
    assert [stored.id for stored in make(tmp_path, f"memory_state_file = {state}").list_volumes()] == ["v"]
    with pytest.raises(errors.ConfigurationError, match="it is that of host@mem, not of host@other"):
        make(tmp_path, f"memory_state_file = {state}", backend="host@other")


def source(name: str, pool: str = "pool1", backend: str = "far@mem", location: str = "memory:far") -> Source:
    return Source(id=name, backend=backend, pool=pool, size_gb=1, location=location)


def test_a_volume_can_be_migrated_from_any_memory_driver(tmp_path: Path) -> None:
    driver = make(tmp_path)
    assert [pool["location_info"] for pool in driver.report()] == ["memory:host"]
    driver.migrate(volume("v"), source("v"))
    for location in ("", "filesystem:host:/srv", "memory"):
        with pytest.raises(errors.DriverError, match="is no place in memory") as caught:
            driver.migrate(volume("w"), source("w", location=location))
        assert caught.value.clean
    assert [stored.id for stored in driver.list_volumes()] == ["v"]


def test_a_clone_needs_its_source_on_this_backend(tmp_path: Path) -> None:
    driver = make(tmp_path, "memory_pools = 2")
    driver.create(volume("v", pool="pool2"))
    driver.clone(volume("w", 3), source("v", "pool2", "host@mem"))
    for missing in (source("v", "pool1", "host@mem"), source("v", "pool2"), source("x", "pool2", "host@mem")):
        with pytest.raises(errors.DriverError, match="is not on this backend") as caught:
            driver.clone(volume("y"), missing)
        assert caught.value.clean
    assert {(stored.id, stored.pool, stored.size_gb) for stored in driver.list_volumes()} == {
        ("v", "pool2", 1),
        ("w", "pool1", 3),
    }


def test_a_thin_volume_managed_as_thick_uses_its_space(tmp_path: Path) -> None:
    driver = make(tmp_path, "memory_pool_size_gb = 3")
    driver.create(volume("thin", 2))
    driver.create(volume("thick", 2, kind=Provisioning.THICK))
    with pytest.raises(errors.CapacityExceeded, match=r"cannot take 2 GiB thick: .* reserved 0 %, thick\)$"):
        driver.manage(volume("v", 0, kind=Provisioning.THICK), "thin")
    driver.delete(volume("thick"))
    assert driver.manage(volume("v", 0, kind=Provisioning.THICK), "thin") == 2
    (pool,) = driver.report()
    assert (pool["free_capacity_gb"], pool["provisioned_capacity_gb"]) == (1, 2)


@pytest.mark.parametrize("operation", ["clone", "migrate", "manage"])
def test_copies_have_latency_and_failures_too(tmp_path: Path, operation: str) -> None:
    driver = make(tmp_path, "memory_latency = 0.05\nmemory_failure_share = 1")
    start = time.monotonic()
    with pytest.raises(errors.DriverError, match="as memory_failure_share wants") as caught:
        getattr(driver, operation)(volume("v"), "x" if operation == "manage" else source("v"))
    assert caught.value.clean
    assert time.monotonic() - start >= 0.05


# Pools on one storage


def test_pools_of_one_storage_report_its_total_figures(tmp_path: Path) -> None:
    driver = make(
        tmp_path,
        "memory_pools = a, b, own\nmemory_pool_size_gb = 10",
        "[mem:a]\nmemory_storage_id = disk\n[mem:b]\nmemory_storage_id = disk\nmemory_provisioning = thin",
    )
    driver.create(volume("v", 3, "a", Provisioning.THICK))
    driver.create(volume("w", 4, "b"))
    driver.create(volume("x", 5, "own", Provisioning.THICK))
    columns = ("storage_id", "total_capacity_gb", "free_capacity_gb", "provisioned_capacity_gb")
    assert [[pool.get(column) for column in columns] for pool in driver.report()] == [
        ["disk", 10, 7, 7],
        ["disk", 10, 7, 7],
        [None, 10, 5, 5],
    ]
    assert {(stored.id, stored.pool) for stored in driver.list_volumes()} == {("v", "a"), ("w", "b"), ("x", "own")}
    with pytest.raises(errors.CapacityExceeded, match=r"host@mem#b cannot take 4 GiB thin.*provisioned 7"):
        driver.create(volume("y", 4, "b"))


def test_backends_with_one_state_file_share_storages(tmp_path: Path) -> None:
    text = f"memory_state_file = {tmp_path / 'state'}\nmemory_pool_size_gb = 10\nmemory_storage_id = "
    one, other = make(tmp_path, f"{text}disk", backend="one@mem"), make(tmp_path, f"{text}disk", backend="two@mem")
    elsewhere = make(tmp_path, f"{text}disk#2", backend="three@mem")
    one.create(volume("v", 6, kind=Provisioning.THICK))
    assert [pool["free_capacity_gb"] for driver in (one, other, elsewhere) for pool in driver.report()] == [4, 4, 10]
    with pytest.raises(errors.CapacityExceeded, match="two@mem#pool1 cannot take 5 GiB thick"):
        other.create(volume("v", 5, kind=Provisioning.THICK))
    other.create(volume("v", 4, kind=Provisioning.THICK))
    elsewhere.create(volume("w", 10, kind=Provisioning.THICK))
    assert [stored.size_gb for stored in one.list_volumes()] == [6]
    assert [stored.size_gb for stored in other.list_volumes()] == [4]
    one.delete(volume("v"))
    assert [stored.size_gb for stored in other.list_volumes()] == [4]
    assert [pool["provisioned_capacity_gb"] for pool in make(tmp_path, f"{text}disk", backend="one@mem").report()] == [
        4
    ]


def test_pools_of_one_storage_need_the_same_size(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"\[mem:pool2\] memory_pool_size_gb = 5: .*'disk' has 100 GiB"):
        make(tmp_path, "memory_pools = 2\nmemory_storage_id = disk", "[mem:pool2]\nmemory_pool_size_gb = 5")


def test_a_state_file_needs_a_storage_id_for_all_pools_or_none(tmp_path: Path) -> None:
    text = f"memory_pools = 2\nmemory_state_file = {tmp_path / 'state'}"
    with pytest.raises(errors.ConfigurationError, match=r"\[mem\] memory_storage_id: .* for all pools or none"):
        make(tmp_path, text, "[mem:pool2]\nmemory_storage_id = disk")


_SHARER = """
import pathlib, sys
from tests.unit.drivers import configured
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers import loader
from tonnage.drivers.base import Volume

name, folder, text = sys.argv[1:]
driver = loader.load(f"{name}@mem", "mem", configured.conf(pathlib.Path(folder), text))
driver.check()
print("ready", flush=True)
sys.stdin.readline()
made = 0
for number in range(60):
    try:
        driver.create(Volume(id=f"{name}-{number}", pool="pool1", size_gb=1, provisioning=Provisioning.THICK))
        made += 1
    except errors.CapacityExceeded:
        pass
print(made, flush=True)
"""


def test_processes_that_share_a_storage_fill_it_exactly(tmp_path: Path) -> None:
    text = (
        "[mem]\nvolume_driver = memory\nmemory_storage_id = disk\nmemory_pool_size_gb = 80\n"
        f"memory_state_file = {tmp_path / 'state'}\n"
    )
    processes = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", _SHARER, name, tmp_path / name, text],
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    made = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(made) == 80
    assert min(made) >= 20
    drivers = [make(tmp_path, text.partition("memory\n")[2], backend=f"{name}@mem") for name in ("one", "two")]
    listed = [len(driver.list_volumes()) for driver in drivers]
    assert listed == made
    reports = itertools.chain.from_iterable(driver.report() for driver in drivers)
    assert [(pool["free_capacity_gb"], pool["provisioned_capacity_gb"]) for pool in reports] == [(0, 80)] * 2


def test_a_corrupted_shared_state_file_is_an_error(tmp_path: Path) -> None:
    state = tmp_path / "state"
    driver = make(tmp_path, f"memory_state_file = {state}\nmemory_storage_id = disk")
    state.write_text("{", encoding="utf-8")
    for operation in (lambda: driver.create(volume("v")), driver.report, driver.list_volumes):
        with pytest.raises(errors.DriverError, match=r"memory_state_file .*/state cannot be used"):
            operation()
    assert state.read_text(encoding="utf-8") == "{"
