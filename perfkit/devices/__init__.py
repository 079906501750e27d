"""What devices can at most do: datasheet catalogue, detection and measured ceilings."""
