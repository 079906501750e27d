"""An attached loop's host program: its guard, budget, launcher, profiler, folder."""
