# SPDX-License-Identifier: Apache-2.0
"""Authentication strategies and the policy rules."""
