"""LaF-Privacy: anonymized without any label, recognised zero-shot by a frozen vision-language model."""
