# SPDX-License-Identifier: Apache-2.0
import itertools

from tonnage.drivers.snapshot_cache import SnapshotCache


def test_a_nested_snapshot_is_the_outer_one() -> None:
    numbers = itertools.count()
    cache: SnapshotCache[int] = SnapshotCache()

    def cached() -> int:
        return cache.get("it", lambda: next(numbers))

    with cache.snapshot():
        with cache.snapshot():
            assert cached() == 0
        assert cached() == 0
    assert [cached(), cached()] == [1, 2]
    with cache.snapshot():
        assert [cached(), cached()] == [3, 3]
