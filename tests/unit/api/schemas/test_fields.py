# SPDX-License-Identifier: Apache-2.0
"""Fields of bodies."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.api.schemas import fields
from tonnage.api.schemas.fields import Size
from tonnage.capacity import type_conversion
from tonnage.capacity.units import MAX_SIZE_GB


@given(st.integers(1, min(MAX_SIZE_GB, 999_999_999)))
def test_a_size_is_a_number_or_a_text_of_digits(size: int) -> None:
    assert Size.parse(size) == Size.parse(str(size)) == Size.parse(float(size)) == size


@pytest.mark.parametrize(
    "value",
    [0, -1, MAX_SIZE_GB + 1, 1.5, math.inf, math.nan, True, None, "", "0", "01", "+1", " 1", "1\n", "1.0", "٣", [1]],
)
def test_other_sizes_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="expected a whole number of GiB from 1 to"):
        Size.parse(value)


@pytest.mark.parametrize("key", ["", "a\n", "\na", "a=b", "a\tb", "\u00e4", "a" * 256])
def test_a_key_of_specs_is_of_letters_digits_and_some_signs(key: str) -> None:
    assert type_conversion.convert("hw:disk_type. a/b-c", fields.SpecKey) == "hw:disk_type. a/b-c"
    with pytest.raises(msgspec.ValidationError):
        type_conversion.convert(key, fields.SpecKey)


def test_a_flag_that_is_no_boolean_is_named() -> None:
    assert fields.parse_flag("force", "yes")
    with pytest.raises(ValueError, match="force is neither true nor false"):
        fields.parse_flag("force", "maybe")


@pytest.mark.parametrize("cluster", fields.EMPTY_VALUES)
def test_a_cluster_without_a_value_is_ignored(cluster: Any) -> None:
    fields.reject_cluster(cluster)


def test_a_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match="clusters are not supported: name a host"):
        fields.reject_cluster("east")
