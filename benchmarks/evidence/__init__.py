"""Do groups win? Every method on every data set, on the same splits."""
