"""Smoke tests: the checks that run inside an image, and the code that gathers their results."""
