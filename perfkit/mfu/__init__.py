"""Audits MFU: the figure of a run under every convention, and which of them reproduces a printed one."""
