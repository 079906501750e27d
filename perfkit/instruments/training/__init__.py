"""Trained models and their tensors."""
