# SPDX-License-Identifier: Apache-2.0
"""Commands that show the pools, volumes, volume types and claims of the ledger."""
