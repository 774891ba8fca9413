"""Debian: archives, their signatures and indexes, packages without their scripts."""
