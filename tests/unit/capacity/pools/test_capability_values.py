# SPDX-License-Identifier: Apache-2.0
"""Reported capabilities: where they are, which of them are identical, and a code for each distinct value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.capacity.pools import capability_values
from tonnage.capacity.pools.capability_values import MISSING, Values, identity_key, reader, reported, same

CAPABILITIES = {"vendor": "Acme", "qos": {"iops": {"max": 500}}, "nothing": None}
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.0, 1.0, 2.0]), st.sampled_from("01"))
REPORTED = st.recursive(PLAIN, lambda inner: st.one_of(st.lists(inner, max_size=2)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["vendor"], "Acme"),
        (["qos", "iops", "max"], 500),
        (["nothing"], None),
        (["absent"], MISSING),
        (["vendor", "deeper"], MISSING),
        (["qos", "bytes"], MISSING),
    ],
)
def test_a_capability_is_read_at_its_path(path: list[str], value: object) -> None:
    assert reported(CAPABILITIES, path) == value
    assert reader(path)(CAPABILITIES) == value


@given(REPORTED, REPORTED)
def test_identical_values_are_those_of_one_text(first: object, second: object) -> None:
    is_same = repr(first) == repr(second)
    assert same({"a": first}, {"a": second}) is is_same
    assert (identity_key(first) == identity_key(second)) is is_same


def test_capabilities_with_other_names_are_not_the_same() -> None:
    assert not same({"a": 1}, {"b": 1})
    assert not same({"a": 1}, {"a": 1, "b": 1})
    assert same({}, {})


def test_each_distinct_value_has_a_code_of_its_own() -> None:
    values = Values(reader(["flag"]))
    codes = values.codes([{"flag": True}, {"flag": 1}, {}, {"flag": True}, {"flag": 1.0}])
    assert codes.tolist() == [0, 1, 2, 0, 3]
    assert list(map(repr, values.values)) == ["True", "1", "nothing", "1.0"]
    assert values.find(1) == 1
    assert values.find("1") is None


def test_values_with_the_same_key_share_a_code() -> None:
    values = Values(reader(["vendor"]), key=lambda value: str(value).lower())
    assert values.codes([{"vendor": "Acme"}, {"vendor": "ACME"}, {"vendor": "Other"}]).tolist() == [0, 0, 1]
    assert values.find("acme") == 0


def test_a_function_of_the_values_is_called_once_for_each() -> None:
    values = Values(reader(["size"]))
    calls: list[int] = []

    def is_even(value: int) -> bool:
        calls.append(value)
        return value % 2 == 0

    values.codes([{"size": 2}, {"size": 4}])
    assert set(values.distinct_results(is_even)) == {True}
    values.codes([{"size": 4}, {"size": 5}])
    assert set(values.distinct_results(is_even)) == {True, False}
    assert calls == [2, 4, 5]


def test_a_missing_value_explains_itself() -> None:
    assert repr(capability_values.MISSING) == "nothing"
