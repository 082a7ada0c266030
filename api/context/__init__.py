# SPDX-License-Identifier: Apache-2.0
"""The objects that resources share: parts, rows as bodies, requests as messages."""
