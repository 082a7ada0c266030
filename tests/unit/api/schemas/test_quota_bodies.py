# SPDX-License-Identifier: Apache-2.0
"""Limits in bodies: whole numbers, also as text, -1 for no limit."""

import math
from typing import Any

import pytest

from tonnage.api.http import body
from tonnage.api.schemas.quota_bodies import MAX_LIMIT, LimitValues, SetClassQuotas, SetQuotas
from tonnage.capacity import errors


@pytest.mark.parametrize(
    ("sent", "limit"), [(0, 0), (-1, -1), ("-1", -1), ("7", 7), ("007", 7), (3.0, 3), (MAX_LIMIT, MAX_LIMIT)]
)
def test_a_limit_is_a_whole_number_or_a_text_of_digits(sent: Any, limit: int) -> None:
    assert LimitValues.parse({"volumes": sent}).values == {"volumes": limit}


@pytest.mark.parametrize("sent", [-2, MAX_LIMIT + 1, 1.5, math.inf, math.nan, True, "", "-2", "1.0", " 1", "1e3", [1]])
def test_other_limits_are_refused_with_their_name(sent: Any) -> None:
    with pytest.raises(ValueError, match="gigabytes_gold has to be a whole number from -1, which is no limit"):
        LimitValues.parse({"volumes": 1, "gigabytes_gold": sent})


def test_a_limit_that_is_null_does_not_change_and_other_keys_of_clients_are_ignored() -> None:
    sent = {"volumes": None, "gigabytes": 5, "tenant_id": "p", "force": True, "id": None, "user_id": "u"}
    assert LimitValues.parse(sent).values == {"gigabytes": 5}


@pytest.mark.parametrize("sent", [None, [], "volumes", 7])
def test_limits_are_an_object(sent: Any) -> None:
    with pytest.raises(ValueError, match="expected an object"):
        LimitValues.parse(sent)


def test_the_error_of_a_body_names_the_limit() -> None:
    with pytest.raises(errors.InvalidInput, match=r"quota_set.*volumes has to be a whole number"):
        body.convert({"quota_set": {"volumes": "many"}}, SetQuotas)
    with pytest.raises(errors.InvalidInput, match="unknown field quota_set"):
        body.convert({"quota_set": {"volumes": 1}}, SetClassQuotas)
