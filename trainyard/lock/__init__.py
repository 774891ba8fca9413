"""Locks: every wheel and every .deb that goes into an image, by hash."""
