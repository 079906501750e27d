"""Formulas for the ops of other packages than torch."""
