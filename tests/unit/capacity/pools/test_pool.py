# SPDX-License-Identifier: Apache-2.0
"""Names of pools, and the hash by which processes agree on an order of them."""

import pytest

from tonnage.capacity.pools.pool import Pool, backend_of, is_backend_name, pool_name, short_name, stable_hash


@pytest.mark.parametrize("pool", ["p", "with#hash", ""])
def test_the_parts_of_a_full_name(pool: str) -> None:
    assert pool_name("host@backend", pool) == f"host@backend#{pool}"


@pytest.mark.parametrize("name", ["", "@", "#", "host@b#p", "host@", "@b", "host", "a@b@c", "ho st@b", "host@b\n"])
def test_texts_that_name_no_backend(name: str) -> None:
    assert not is_backend_name(name)
    assert is_backend_name("host.example.com@lvm-1")


def test_the_last_separator_ends_the_backend() -> None:
    assert (backend_of("host@backend#p"), short_name("host@backend#p")) == ("host@backend", "p")
    assert (backend_of("no pool"), short_name("no pool")) == ("", "no pool")
    assert Pool(name="host@backend#p", total=1.0, free=1.0).backend == "host@backend"


def test_a_hash_is_the_same_in_every_process() -> None:
    assert stable_hash("host@backend#p") == 10091973618242083662
    assert stable_hash("\ud800") != stable_hash("?")
