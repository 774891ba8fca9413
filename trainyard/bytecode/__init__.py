"""Sources -> unchecked-hash bytecode (PEP 552), compiled by the image's own Python."""
