# SPDX-License-Identifier: Apache-2.0
"""The words for true and false."""

import pytest

from tonnage.api.schemas import booleans


@pytest.mark.parametrize("value", [True, 1, "1", "true", "True", "TRUE", "yes", "on", "t", "Y"])
def test_words_for_true(value: object) -> None:
    assert booleans.parse(value) is True


@pytest.mark.parametrize("value", [None, False, 0, "0", "false", "False", "FALSE", "no", "off", "f", "N"])
def test_words_for_false(value: object) -> None:
    assert booleans.parse(value) is False


@pytest.mark.parametrize("value", ["tRUE", "", " true", "2", 2, -1, [], {}])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="neither true nor false"):
        booleans.parse(value)
