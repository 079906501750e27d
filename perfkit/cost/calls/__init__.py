"""Op calls as data: arguments, dtypes, costs, collectives."""
