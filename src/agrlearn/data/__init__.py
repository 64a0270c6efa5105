"""Where objects and labels come from."""
