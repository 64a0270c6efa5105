"""The parts of aggregate(): tracing a model, taking off its classifier, widening its layers, joining groups in it."""
