"""The procedural world: cast, choreography, stage, camera, screenplays. The embedded data, drawn in PyTorch."""
