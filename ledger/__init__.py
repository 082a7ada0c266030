# SPDX-License-Identifier: Apache-2.0
"""The ledger. Floors from the ground up: models, db and migrations, locks, inventory, claims, catalog, repair."""
