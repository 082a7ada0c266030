# SPDX-License-Identifier: Apache-2.0
import pytest

pytest.register_assert_rewrite("tonnage.drivers.contract")
