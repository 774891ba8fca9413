"""The assembler: entries -> deterministic tar layers -> an OCI image layout."""
