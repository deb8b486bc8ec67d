"""STPrivacy: tubelet sparsification and anonymization (Li et al., ICCV 2023)."""
