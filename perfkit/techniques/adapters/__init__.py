"""Low-rank adapters for fine-tuning."""
