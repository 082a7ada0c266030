# SPDX-License-Identifier: Apache-2.0
"""HTTP: server, middleware, request bodies, microversions, pages, faults."""
