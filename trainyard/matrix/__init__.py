"""matrix.yaml as values: what we support, and nothing about how it is built."""
