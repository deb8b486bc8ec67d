"""One folder per paper: a method trains an anonymizer; it never judges itself."""
