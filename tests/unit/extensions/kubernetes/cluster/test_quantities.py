# SPDX-License-Identifier: Apache-2.0
"""Quantities in the grammar of Kubernetes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.extensions.kubernetes.cluster import quantities

MAX_BYTES = quantities.MAX_BYTES


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1.5Gi", 3 * 2**29),
        ("500M", 500_000_000),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1e-3", 1),
        ("100m", 1),
        ("1000m", 1),
        ("1001m", 2),
        ("1n", 1),
        ("0.1Ki", 103),
        ("1.000000000000000000000000000000000000001", 2),
        (".5Ki", 512),
        ("5.", 5),
        ("+1k", 1000),
        ("-0", 0),
        ("0", 0),
        ("0e999999999999", 0),
        ("1e999999999999", MAX_BYTES),
        ("1e-999999999999", 1),
        ("8Ei", MAX_BYTES),
        ("9223372036854775807", MAX_BYTES),
        ("9223372036854775806", MAX_BYTES - 1),
        ("9223372036854775805.000000000000000000001", MAX_BYTES - 1),
        (7, 7),
        (10.5, 11),
        (1e30, MAX_BYTES),
    ],
)
def test_a_quantity_is_parsed(text: Any, size: int) -> None:
    assert quantities.parse(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "Gi",
        "1K",
        "1ki",
        "1mi",
        "1 Gi",
        " 1",
        "1\n",
        "1_0",
        "1e",
        "1e3Gi",
        "1e1.5",
        "0x1",
        "NaN",
        "Infinity",
        "-1",
        "-1m",
        "1Gii",
        "1.2.3",
        "\u0661",
        "1" * 65,
        True,
        None,
        ["1"],
        float("nan"),
        float("inf"),
    ],
)
def test_a_malformed_quantity_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match=r"quantity|less than 0"):
        quantities.parse(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0"),
        (3 * 2**29, "1536Mi"),
        (2**60, "1Ei"),
        (5 * 10**8, "500M"),
        (10**10, "10G"),
        (10**12, "1T"),
        (10 * 2**30, "10Gi"),
        (1000 * 2**10, "1000Ki"),
        (1001, "1001"),
    ],
)
def test_a_size_is_rendered_in_the_unit_of_its_smallest_number(size: int, text: str) -> None:
    assert quantities.render(size) == text


@given(size=st.integers(0, MAX_BYTES) | st.integers(0, 2**20).map(lambda number: number * 2**30))
def test_a_rendered_size_parses_to_itself(size: int) -> None:
    assert quantities.parse(quantities.render(size)) == size
