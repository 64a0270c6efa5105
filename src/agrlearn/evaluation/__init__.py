"""How good the predictions are."""
