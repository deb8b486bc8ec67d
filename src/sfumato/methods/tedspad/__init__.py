"""TeD-SPAD: temporal distinctiveness for self-supervised privacy preservation (Fioresi et al., ICCV 2023)."""
