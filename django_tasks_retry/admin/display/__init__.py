"""Values made fit to be shown: formatted, redacted, safe."""
