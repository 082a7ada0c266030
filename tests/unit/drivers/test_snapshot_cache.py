# SPDX-License-Identifier: Apache-2.0
import itertools

from tonnage.drivers.snapshot_cache import OneLook


def test_a_look_within_a_look_is_the_same_and_ends_with_the_outer_one() -> None:
    looks = itertools.count()
    one: OneLook[int] = OneLook()

    def seen() -> int:
        return one.of("it", lambda: next(looks))

    with one.taken():
        with one.taken():
            assert seen() == 0
        assert seen() == 0
    assert [seen(), seen()] == [1, 2]
    with one.taken():
        assert [seen(), seen()] == [3, 3]
