"""What `trainyard-verify` runs inside an image or a child of one; standard library only, imports nothing above."""
