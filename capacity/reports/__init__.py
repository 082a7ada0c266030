# SPDX-License-Identifier: Apache-2.0
"""Validation and audit of the reports of drivers, and pools that a question assumes."""
