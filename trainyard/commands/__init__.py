"""What each `invoke` verb does, without its flags: a Workspace and plain values in, plain values out."""
