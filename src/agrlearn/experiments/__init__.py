"""Runs worth comparing, and how to compare them."""
