"""The flags of `invoke`: one module for each kind of work; what they do is in trainyard/commands."""
