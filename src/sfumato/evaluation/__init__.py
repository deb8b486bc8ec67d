"""How a frozen anonymizer is judged (protocols), who tries to break it (attacks), and the numbers (metrics)."""
