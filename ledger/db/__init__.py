# SPDX-License-Identifier: Apache-2.0
"""The database connection, transactions, the schema version."""
