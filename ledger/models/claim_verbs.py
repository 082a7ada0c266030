# SPDX-License-Identifier: Apache-2.0
"""The verbs of claims: the values of the column ``claims.verb``, which are also those of the commands to agents."""

CREATE = "create"
EXTEND = "extend"
MIGRATE = "migrate"
MANAGE = "manage"
DELETE = "delete"
PURGE = "purge"
