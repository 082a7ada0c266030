# SPDX-License-Identifier: Apache-2.0
"""Messages as requests, and the choice of one pool for one request."""
