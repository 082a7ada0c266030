# SPDX-License-Identifier: Apache-2.0
"""The state of the memory driver: changes that outlive the process, and a file that backends share."""

import pathlib
import threading

import pytest

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers.memory.state import State, VolumeEntry

THIN = VolumeEntry(3, Provisioning.THIN)
THICK = VolumeEntry(4, Provisioning.THICK)


def change(state: State, volume_id: str, entry: VolumeEntry | None, pool: str = "p") -> None:
    with state.locked():
        state.update(pool, {volume_id: entry})


def volumes(state: State, pool: str = "p") -> dict[str, VolumeEntry]:
    with state.locked() as by_pool:
        return dict(by_pool.get(pool, {}))


def test_a_change_adds_replaces_and_removes_volumes_of_one_pool() -> None:
    state = State(None, shared=False)
    change(state, "a", THIN)
    change(state, "a", THICK)
    change(state, "b", THIN)
    change(state, "b", None)
    change(state, "absent", None)
    change(state, "a", THIN, pool="other")
    assert (volumes(state), volumes(state, "other"), volumes(state, "absent")) == ({"a": THICK}, {"a": THIN}, {})


def test_a_new_process_reads_the_volumes_from_the_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "state.json"
    first = State(file, shared=False)
    first.check()
    change(first, "a", THIN)
    second = State(file, shared=False)
    second.check()
    assert volumes(second) == {"a": THIN}


def test_backends_that_share_a_file_see_the_changes_of_each_other(tmp_path: pathlib.Path) -> None:
    states = [State(tmp_path / "state.json", shared=True) for _ in range(2)]
    change(states[0], "a", THIN)
    change(states[1], "b", THICK)
    assert volumes(states[0]) == volumes(states[1]) == {"a": THIN, "b": THICK}


def test_no_change_of_a_shared_file_is_lost_between_threads(tmp_path: pathlib.Path) -> None:
    def add(number: int) -> None:
        state = State(tmp_path / "state.json", shared=True)
        for volume in range(5):
            change(state, f"{number}-{volume}", THIN)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(volumes(State(tmp_path / "state.json", shared=True))) == 20


def test_a_change_that_cannot_be_written_is_not_visible(tmp_path: pathlib.Path) -> None:
    state = State(tmp_path / "absent" / "state.json", shared=False)
    with state.locked(), pytest.raises(errors.DriverError, match=r"memory_state_file .* cannot be used") as caught:
        state.update("p", {"a": THIN})
    assert caught.value.clean
    assert volumes(state) == {}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"p": {"a": {}}}', '{"p": 3}', '{"p": {"a": {"size_gb": 1, "provisioning": "x"}}}']
)
def test_a_file_of_another_format_is_refused(tmp_path: pathlib.Path, text: str) -> None:
    file = tmp_path / "state.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        State(file, shared=False).check()
    with pytest.raises(errors.DriverError, match="cannot be used"), State(file, shared=True).locked():
        pass
    assert file.read_text(encoding="utf-8") == text
