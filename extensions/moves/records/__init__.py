# SPDX-License-Identifier: Apache-2.0
"""The rows of plans that are carried out, and their limits."""
