# SPDX-License-Identifier: Apache-2.0
"""The pools of one storage, and the backends that have any."""

import numpy as np

from tonnage.capacity.pools.shared_storage import Storage


def test_a_backend_is_on_a_storage_for_as_long_as_one_of_its_pools_is() -> None:
    storage = Storage(["h1@b#p0", "h1@b#p1", "h2@b#p0"])
    assert storage.backends == {"h1@b": 2, "h2@b": 1}
    storage.discard("h1@b#p0")
    assert storage.backends == {"h1@b": 1, "h2@b": 1}
    storage.discard("h2@b#p0")
    assert set(storage.backends) == {"h1@b"}


def test_a_pool_counts_once() -> None:
    storage = Storage()
    storage.add("h1@b#p0")
    storage.add("h1@b#p0")
    assert storage.backends == {"h1@b": 1}
    storage.discard("h1@b#p0")
    storage.discard("h1@b#p0")
    assert (storage.names, dict(storage.backends)) == (set(), {})


def test_a_change_drops_what_was_computed_from_the_pools() -> None:
    storage = Storage(["h1@b#p0"])
    for change in (storage.add, storage.discard):
        storage.sorted_names, storage.rows = ["h1@b#p0"], np.array([0])
        change("h2@b#p0")
        assert (storage.sorted_names, storage.rows) == (None, None)


def test_a_pool_that_is_there_already_keeps_what_was_computed() -> None:
    storage = Storage(["h1@b#p0"])
    storage.sorted_names = ["h1@b#p0"]
    storage.add("h1@b#p0")
    assert storage.sorted_names == ["h1@b#p0"]
