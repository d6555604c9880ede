"""Runs to run folders: one loop for every method."""
