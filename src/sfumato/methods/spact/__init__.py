"""SPAct: self-supervised privacy preservation for action recognition (Dave et al., CVPR 2022). By default: a mosaic, no f_B."""
