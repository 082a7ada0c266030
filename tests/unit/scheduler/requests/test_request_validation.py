# SPDX-License-Identifier: Apache-2.0
"""What is refused before anything is looked up."""

import pytest

from tonnage.capacity import errors
from tonnage.scheduler.requests import request_validation


@pytest.mark.parametrize(
    "volume_id", ["", "x", "{8cd04ca8-c2a4-6b59-0e99-b2e8d73f8fe9}", "8CD04CA8-c2a4-6b59-0e99-b2e8d73f8fe9"]
)
def test_ids_of_volumes_are_plain(volume_id: str) -> None:
    with pytest.raises(errors.InvalidInput, match="a UUID in its usual form"):
        request_validation.check_uuid(volume_id)
