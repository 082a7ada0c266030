# SPDX-License-Identifier: Apache-2.0
"""``tonnage-cinder-shadow``: the tap on Cinder's bus, promised capacity, verdicts."""
