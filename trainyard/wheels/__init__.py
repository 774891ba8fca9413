"""A locked wheel as layer entries: zip -> verified stream, with no install tree in between."""
