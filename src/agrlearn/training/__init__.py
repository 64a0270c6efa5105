"""Training by Algorithm 1 of the paper."""
