"""The penalty-driven anonymizer (Aslam and Nasrollahi, 2025)."""
