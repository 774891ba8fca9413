"""Runners: ways to run a command inside a built image."""
