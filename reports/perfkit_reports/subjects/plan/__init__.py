"""Plans: memory and step time that variants would need, before they run."""
