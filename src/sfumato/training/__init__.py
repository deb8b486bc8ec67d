"""The pieces every training uses: seeds, device and precision, augmentation, and fitting a recognizer."""
