"""Mutual information by neural networks: bounds, critics, and the regularizer that training uses."""
