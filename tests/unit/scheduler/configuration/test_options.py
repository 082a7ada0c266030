# SPDX-License-Identifier: Apache-2.0
import pytest

from tonnage.capacity import errors
from tonnage.scheduler.configuration import options


@pytest.mark.parametrize(("text", "ratio"), [("20.0", 20.0), ("1", 1.0), (" AUTO ", "auto")])
def test_a_ratio_is_a_number_or_auto(text: str, ratio: float | str) -> None:
    assert options.default_ratio(text) == ratio


@pytest.mark.parametrize("text", ["0.99", "-1", "many", "", "nan", "inf", "1e7"])
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"option max_over_subscription_ratio: .* number of at least 1"):
        options.default_ratio(text)
