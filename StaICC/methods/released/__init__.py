"""What variant ``0.1.1`` computes: the arithmetic of the release with its bugs, with its classes and call shapes."""
