"""Formulas for FLOPs and bytes, one file a family of ops."""
