"""Predictions to corrected labels."""
