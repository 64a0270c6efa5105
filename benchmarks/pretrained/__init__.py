"""Fine-tuning with groups: MiniLM on sentences, EfficientNet-lite0 on images."""
