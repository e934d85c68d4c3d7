"""Typed values as plain JSON and back: the codecs, and which of them an annotation asks for."""
