# SPDX-License-Identifier: Apache-2.0
"""The publication of capacity as CSIStorageCapacity objects."""
