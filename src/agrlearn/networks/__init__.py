"""Networks that classify a group in one pass."""
