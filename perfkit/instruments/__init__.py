"""The instruments: clock, trace, memory, sensors, environment."""
