# SPDX-License-Identifier: Apache-2.0
"""Tonnage: a storage-capacity scheduler."""

__version__ = "0.1.0"
