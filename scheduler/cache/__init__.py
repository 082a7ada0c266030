# SPDX-License-Identifier: Apache-2.0
"""The table of pools and the backend states in memory, and their refresh."""
