# SPDX-License-Identifier: Apache-2.0
"""Requests and their provisioning types."""

import numpy as np
import pytest

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning, Request, judged_thin, requested_provisioning

THIN, THICK = Provisioning.THIN, Provisioning.THICK


@pytest.mark.parametrize(
    ("supports_thin", "supports_thick", "asked", "thin"),
    [
        (True, True, None, True),
        (True, False, None, True),
        (False, True, None, False),
        (False, False, None, False),
        (True, True, THICK, False),
        (True, True, THIN, True),
        (True, False, THICK, True),
        (False, True, THIN, False),
        (False, False, THIN, False),
        (False, False, THICK, False),
    ],
)
def test_judged_thin(supports_thin: bool, supports_thick: bool, asked: Provisioning | None, thin: bool) -> None:
    assert bool(judged_thin(supports_thin, supports_thick, asked)) is thin
    column = judged_thin(np.array([supports_thin]), np.array([supports_thick]), asked)
    assert isinstance(column, np.ndarray)
    assert column.tolist() == [thin]


@pytest.mark.parametrize(
    ("specs", "asked"),
    [
        ({}, None),
        ({"provisioning:type": "thin"}, THIN),
        ({"provisioning:type": " THICK "}, THICK),
        ({"a": "thin"}, None),
    ],
)
def test_requested_provisioning(specs: dict[str, str], asked: Provisioning | None) -> None:
    assert requested_provisioning(specs) is asked


def test_an_unknown_provisioning_type_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match=r"provisioning:type is 'sparse'; it takes 'thin' or 'thick'"):
        requested_provisioning({"provisioning:type": "sparse"})


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request("r", 500, provisioning=THIN, volume_type="gold", extra_specs={"a": "1"}), "500 GiB thin 'gold'"),
        (Request("r", 1, volume_type="gold", extra_specs={"a": "1"}), "1 GiB 'gold'"),
        (Request("r", 1, volume_type="__DEFAULT__"), "1 GiB"),
        (Request("r", 2, provisioning=THICK), "2 GiB thick"),
        (Request("r", 3), "3 GiB"),
        (Request("r", 0, provisioning=THICK, volume_type="gold", extra_specs={"a": "1"}), "a volume thick 'gold'"),
        (Request("r", 0), "a volume"),
    ],
)
def test_description(request_: Request, words: str) -> None:
    assert request_.describe() == words
