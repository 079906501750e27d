"""Measures what a check asks for, judges it, and writes down why.

Called, as `perfkit.check(...)`, it is `perfkit.check.check_change.check_change`.
"""

from perfkit.callable_package import make_callable

make_callable(__name__, "perfkit.check.check_change:check_change")
