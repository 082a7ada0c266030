# SPDX-License-Identifier: Apache-2.0
"""The capacity that provisioners of drivers have published, as pools in the ledger."""
