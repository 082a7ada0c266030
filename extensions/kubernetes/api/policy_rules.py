# SPDX-License-Identifier: Apache-2.0
"""The policy rules of ``/csi-drivers`` and ``/csi-capacity``, for administrators."""

from oslo_policy import policy

from tonnage.api.auth import policies

GET_ALL = "csi:get_all_drivers"
GET = "csi:get_driver"
UPDATE = "csi:update_driver"
DELETE = "csi:delete_driver"
FIT = "csi:fit"
CLAIM = "csi:claim"

#: One row for each rule: its name, its description, and the API calls to which it applies.
_TABLE = (
    (GET_ALL, "List the storage drivers of Kubernetes clusters.", "GET /csi-drivers"),
    (GET, "Show such a driver with its storage.", "GET /csi-drivers/{driver}"),
    (UPDATE, "Change such a driver and its figures.", "PATCH /csi-drivers/{driver}"),
    (DELETE, "Remove such a driver with its figures.", "DELETE /csi-drivers/{driver}"),
    (FIT, "List the nodes that can take given volumes.", "POST /csi-capacity/fit"),
    (
        CLAIM,
        "Claim capacity for volumes on a node, and release it.",
        "POST /csi-capacity/fit",
        "GET /csi-capacity/claims/{holder}",
        "DELETE /csi-capacity/claims/{holder}",
    ),
)


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """Return the rules."""
    return [policies.rule(name, policies.ADMIN, description, *calls) for name, description, *calls in _TABLE]
