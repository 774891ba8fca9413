"""What this host, or an image, has: and which targets it can therefore run."""
