"""How fast ranks of one machine exchange messages: measured, kept per machine, looked up by collective and size."""
