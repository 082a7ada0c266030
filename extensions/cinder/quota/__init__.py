# SPDX-License-Identifier: Apache-2.0
"""Quotas of Cinder that are counted from its rows; only the module ``driver`` imports Cinder."""
