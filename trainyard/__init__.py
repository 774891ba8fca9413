"""trainyard: reproducible PyTorch training images, from one matrix.yaml to a tested digest."""
