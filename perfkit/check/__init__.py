"""Measures and judges a check, and explains the changes.

Calling `perfkit.check(...)` calls `perfkit.check.check_change.check_change`.
"""

from perfkit.core.callable_package import make_callable

make_callable(__name__, "perfkit.check.check_change:check_change")
