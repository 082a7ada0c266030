# SPDX-License-Identifier: Apache-2.0
"""The names in the spec "Add Capacity Factors to scheduler get pools API", for the tests of several rooms."""

#: The keys, in its order.
FACTORS = (
    "total_capacity",
    "free_capacity",
    "reserved_capacity",
    "total_reserved_available_capacity",
    "max_over_subscription_ratio",
    "total_available_capacity",
    "provisioned_capacity",
    "calculated_free_capacity",
    "virtual_free_capacity",
    "free_percent",
    "provisioned_ratio",
    "provisioned_type",
)
