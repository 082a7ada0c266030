# SPDX-License-Identifier: Apache-2.0
"""The Alembic migrations of the core's tables."""
