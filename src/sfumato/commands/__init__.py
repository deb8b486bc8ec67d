"""What each command does, one file each; `cli.py` only declares their options."""
