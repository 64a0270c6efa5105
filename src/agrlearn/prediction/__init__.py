"""Which objects sit in the slots when a network predicts."""
