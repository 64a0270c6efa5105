"""The tables and figures of the paper: cells, published numbers, and what is made of them."""
